package client

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"shardid/client/hold"
)

const (
	// firstFetch is how many IDs a buffer fetches that was not in use.
	firstFetch = 16
	// heldFor is for how long the IDs of a buffer should last, and below fetchBelow of that more
	// are fetched.
	heldFor    = 2 * time.Second
	fetchBelow = 0.5
)

// fetcher fetches the IDs of one buffer: it is the source of its pool.
type fetcher struct {
	client *Client
	path   string // to which parameters are added
}

// More implements hold.Source with one request. It is made at several replicas until one answers or
// Options.Timeout has passed, so that no error of it is worth a wait.
func (f fetcher) More(ctx context.Context, n int64) (ranges []hold.Run, err error) {
	count := int(min(n, maxBatch))
	q := question{method: http.MethodPost, path: f.path + "ranges=true&count=" + strconv.Itoa(count)}
	err = f.client.askNow(ctx, q, func(a answer) (err error) {
		ranges, err = a.ranges(count)
		return err
	})
	return ranges, err
}

// addBuffer makes a buffer that is fetched from a path. Callers hold mu.
func (c *Client) addBuffer(path string) *hold.Pool {
	p := hold.New(hold.Options{
		Source: fetcher{c, path}, Lasts: heldFor, Low: fetchBelow,
		// The caller for whom IDs are fetched takes one more.
		Least: min(firstFetch, int64(c.opts.MaxHeld)) - 1, Most: int64(c.opts.MaxHeld) - 1,
		// A caller waits for a fetch, whose error it gets. It may have begun while another was under way.
		Timeout: min(c.opts.Timeout, math.MaxInt64/4) * 4, Empty: ErrTimeout,
		Final: func(error) bool { return true }, Go: c.start,
	})
	if c.closed {
		p.Close(ErrClosed)
	} else {
		c.buffers = append(c.buffers, p)
	}
	return p
}

// start runs a function on another goroutine, which Close waits for; false: the client is closed.
func (c *Client) start(run func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(run)
	}
	return !c.closed
}

func takeOf(ctx context.Context, buffer *hold.Pool, n int) ([]int64, error) {
	if n < 1 || n > MaxTake {
		return nil, fmt.Errorf("shardid: %d IDs: ask for 1 to %d", n, MaxTake)
	}
	ids, err := buffer.Take(ctx, n, make([]int64, 0, n))
	if err != nil {
		return nil, err
	}
	return ids, nil
}
