//go:build unix

package stories_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tinyidClient does what tinyid's Java client does: it counts on its own in two buffers, and
// fetches the second one from any server when the first has come to its loadingId. For one
// goroutine at a time.
type tinyidClient struct {
	servers    []string // URLs
	token, tag string
	http       *http.Client
	current    *tinyidBuffer
	next       chan *tinyidBuffer // of the fetch in the background; nil when none is under way
	fetched    *tinyidBuffer
}

// tinyidBuffer has the IDs above current up to most.
type tinyidBuffer struct{ current, loading, most, delta int64 }

// nextID gives an ID, or why there is none.
func (c *tinyidClient) nextID() (int64, error) {
	for {
		if c.next != nil {
			select {
			case c.fetched = <-c.next:
				c.next = nil
			default:
			}
		}
		switch b := c.current; {
		case b == nil || b.current+b.delta > b.most: // used up
			c.current, c.fetched = c.fetched, nil
			if c.current == nil {
				var err error
				if c.current, err = c.fetch(); err != nil {
					return 0, err
				}
			}
		default:
			b.current += b.delta
			if b.current >= b.loading && c.fetched == nil && c.next == nil {
				next := make(chan *tinyidBuffer, 1)
				c.next = next
				go func() {
					fetched, _ := c.fetch() // it is tried again
					next <- fetched
				}()
			}
			return b.current, nil
		}
	}
}

// fetch asks one of the servers as HttpSegmentIdServiceImpl does.
func (c *tinyidClient) fetch() (*tinyidBuffer, error) {
	server := c.servers[rand.IntN(len(c.servers))]
	asked := url.Values{"token": {c.token}, "bizType": {c.tag}}
	target := server + "/tinyid/id/nextSegmentIdSimple?" + asked.Encode()
	res, err := c.http.Post(target, "application/x-www-form-urlencoded", strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || len(body) == 0 {
		return nil, fmt.Errorf("status %d, %d bytes, %w", res.StatusCode, len(body), cmp.Or(err, io.EOF))
	}
	var n [5]int64
	fields := strings.Split(string(body), ",")
	for i := range n {
		if n[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return nil, err
		}
	}
	if len(fields) != 5 || n[3] != 1 || n[4] != 0 || n[0] >= n[2] || n[1] < n[0] || n[1] >= n[2] {
		return nil, fmt.Errorf("run %s", body)
	}
	return &tinyidBuffer{n[0], n[1], n[2], n[3]}, nil
}

func newTinyidClient(t *testing.T, token, tag string, servers ...string) *tinyidClient {
	t.Helper()
	h := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	c := &tinyidClient{servers: servers, token: token, tag: tag, http: h}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}
