//go:build unix

package e2e_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
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
	target := server + "/tinyid/id/nextSegmentIdSimple?token=" + url.QueryEscape(c.token) + "&bizType=" + url.QueryEscape(c.tag)
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
	c := &tinyidClient{servers: servers, token: token, tag: tag, http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// TestE2ETinyidClients: clients of tinyid, of Leaf and of /v1 draw from one tag, from three
// replicas of which one after the other is killed and comes back. No ID comes twice.
func TestE2ETinyidClients(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "500")
	addrs := rig.FreeAddrs(t, 3)
	start := func(i int) *daemon {
		return serve(t, onlySegments(dsn), "--set", "server.addr="+addrs[i])
	}
	var servers []string
	replicas := make([]*daemon, len(addrs))
	for i, addr := range addrs {
		replicas[i] = start(i)
		servers = append(servers, "http://"+addr)
		eventually(t, startLimit, "ready", func() bool { return replicas[i].get("/readyz").status == 200 })
	}
	books, end := &ledger{}, time.Now().Add(12*time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	drawn := map[string]int{}
	note := func(kind string, ids ...int64) {
		books.Rise(0, ids...)
		mu.Lock()
		defer mu.Unlock()
		drawn[kind] += len(ids)
	}
	for range 4 {
		wg.Go(func() {
			for time.Now().Before(end) { // a client lives for three seconds and takes its buffers with it
				c := newTinyidClient(t, "any", "orders", servers...)
				for died := time.Now().Add(3 * time.Second); time.Now().Before(died); time.Sleep(100 * time.Microsecond) {
					if id, err := c.nextID(); err == nil {
						note("tinyid", id)
					}
				}
				if c.next != nil {
					<-c.next
				}
			}
		})
	}
	direct := func(kind, target string, read func(string) []string) {
		wg.Go(func() {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for time.Now().Before(end) {
				time.Sleep(time.Millisecond)
				res, err := client.Get(servers[rand.IntN(len(servers))] + target)
				if err != nil {
					continue
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					continue
				}
				for _, text := range read(string(body)) {
					id, err := strconv.ParseInt(text, 10, 64)
					if err != nil {
						books.Complain("%s: %s", kind, body)
						return
					}
					note(kind, id)
				}
			}
		})
	}
	digits := regexp.MustCompile(`\d+`)
	direct("leaf", "/api/segment/get/orders?count=7", strings.Fields)
	direct("v1", "/v1/segment/orders/ids?count=40", func(body string) []string { return digits.FindAllString(body, -1)[1:] })
	direct("nextIdSimple", "/tinyid/id/nextIdSimple?bizType=orders&batchSize=30&token=any", func(body string) []string {
		return strings.FieldsFunc(body, func(r rune) bool { return r == ',' })
	})
	for i := 0; time.Now().Before(end.Add(-3 * time.Second)); i++ {
		time.Sleep(2 * time.Second)
		replicas[i%3].Kill()
		time.Sleep(300 * time.Millisecond)
		replicas[i%3] = start(i % 3)
	}
	wg.Wait()
	books.Settle(t, "orders")
	wantTaken(t, dsn, "orders", books)
	for kind, least := range map[string]int{"tinyid": 20_000, "leaf": 2000, "v1": 10_000, "nextIdSimple": 10_000} {
		if drawn[kind] < least {
			t.Errorf("%s: only %d IDs", kind, drawn[kind])
		}
	}
	t.Logf("%v", drawn)
}
