package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shardid/client/hold"
)

const (
	// maxBatch is the most IDs of one request, as docs/api.md has it.
	maxBatch = 10_000
	// maxAnswer bounds an answer, in bytes: one range, or one text, of each ID at most.
	maxAnswer = 4 << 20
	// firstPause and lastPause bound the time between rounds in which no replica had IDs.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
	// lastFor is how long a replica that had no answer is asked last. One without IDs keeps a caller for two seconds.
	lastFor = 10 * time.Second
)

// userAgent is what every request says of its client.
var userAgent = "shardid-go-client (" + runtime.Version() + ")"

// replica is one address. Safe for concurrent use.
type replica struct {
	url      string
	lastTill atomic.Int64 // in nanoseconds of the client's life; before, it is asked last
}

// answer is the body of /v1, of an error too.
type answer struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	IDs     []string `json:"ids"`
	Ranges  []struct {
		First  int64 `json:"first,string"`
		Count  int64 `json:"count"`
		Stride int64 `json:"stride,string"`
	} `json:"ranges"`
	ShardBits uint32 `json:"shardBits"`
	Lease     *lease `json:"lease"`
	Current   *int64 `json:"current,string"`
}

// noCode is the code of an answer that has none.
const noCode = math.MinInt

// question is a request to any replica.
type question struct {
	method, path string // the path may have a query
	form         string // the body, "" for none
	// within is how long all replicas may take together; 0: Options.Timeout.
	within time.Duration
}

// askNow is askInTurn within the time of the question, and until Close.
func (c *Client) askNow(ctx context.Context, q question, use func(answer) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(q.within, c.opts.Timeout), ErrTimeout)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	err := c.askInTurn(ctx, q, use)
	if err != nil && c.base.Err() != nil {
		return ErrClosed
	}
	return err
}

// askInTurn asks the first replica that has an answer which use takes. A refusal that
// another replica would repeat ends it; anything else is tried at the others, again and
// again until the context ends.
func (c *Client) askInTurn(ctx context.Context, q question, use func(answer) error) error {
	var last error
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		wait, answered := pause, false
		for _, r := range c.inTurn() {
			a, after, err := c.askOne(ctx, r, q)
			if err == nil {
				if err = use(a); err != nil {
					err = fmt.Errorf("shardid: %s answered %w: it is not used", r.url, err)
				}
			}
			if err == nil {
				return nil
			}
			if ctx.Err() != nil { // says less than what came before
				return ended(ctx, last)
			}
			var refused *Error
			switch {
			case errors.As(err, &refused):
				last, answered = err, true
				if refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests {
					return last
				}
				wait = max(wait, after)
			case !answered: // an answer says more than a connection that fails
				last = err
			}
			r.lastTill.Store(int64(time.Since(c.made) + lastFor))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ended(ctx, last)
		}
	}
}

// ended says why the context of a fetch ended, and what the last replica had said before.
func ended(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ErrTimeout) {
		cause = fmt.Errorf("shardid: while IDs were fetched: %w", cause)
	}
	switch {
	case last == nil:
		return fmt.Errorf("%w: no replica answered", cause)
	case errors.Is(last, context.DeadlineExceeded): // of the time of one replica, or of an HTTPClient with a Timeout
		return fmt.Errorf("%w: %v", cause, last) //nolint:errorlint // it is not that of the caller's context
	}
	return fmt.Errorf("%w: %w", cause, last)
}

// inTurn are the replicas, beginning with the next one; those that had no answer lately are last.
func (c *Client) inTurn() []*replica {
	turn, now := c.turn.Add(1), int64(time.Since(c.made))
	first, last := make([]*replica, 0, len(c.replicas)), []*replica(nil)
	for i := range c.replicas {
		r := c.replicas[(turn+uint64(i))%uint64(len(c.replicas))]
		if now < r.lastTill.Load() {
			last = append(last, r)
		} else {
			first = append(first, r)
		}
	}
	return append(first, last...)
}

// askOne asks one replica. One that hangs leaves a quarter of the time to others: a replica lets its callers wait for
// two of the three seconds that a client waits by default. A refusal is an *Error, which may say
// after which time to ask again.
func (c *Client) askOne(ctx context.Context, r *replica, q question) (a answer, after time.Duration, err error) {
	if len(c.replicas) > 1 {
		var cancel context.CancelFunc
		within := cmp.Or(q.within, c.opts.Timeout)
		ctx, cancel = context.WithTimeout(ctx, within-within/4)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, r.url+q.path, strings.NewReader(q.form))
	if err != nil {
		return a, 0, fmt.Errorf("shardid: %w", err)
	}
	if q.form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("User-Agent", userAgent)
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return a, 0, fmt.Errorf("shardid: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return a, 0, fmt.Errorf("shardid: the answer of %s: %w", r.url, err)
	}
	a.Code = noCode
	if err := json.Unmarshal(body, &a); err != nil || a.Code == noCode {
		return a, 0, fmt.Errorf("shardid: correct the address %s, or what is before shardid: it answered %s with %.80q",
			r.url, res.Status, body)
	}
	if res.StatusCode != http.StatusOK || a.Code != 0 {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return a, time.Duration(seconds) * time.Second, &Error{Code: a.Code, Status: res.StatusCode, Message: a.Message}
	}
	return a, 0, nil
}

// ranges are those of an answer, which must have count IDs.
func (a answer) ranges(count int) ([]hold.Run, error) {
	ranges, total := make([]hold.Run, 0, len(a.Ranges)), int64(0)
	for _, one := range a.Ranges {
		ranges = append(ranges, hold.Run{First: one.First, Count: one.Count, Stride: one.Stride})
		if total += one.Count; one.First < 1 || one.Count < 1 || one.Count > int64(count) || one.Stride < 1 ||
			one.Count > 1 && one.Stride > (math.MaxInt64-one.First)/(one.Count-1) {
			return nil, fmt.Errorf("the range %+v", one)
		}
	}
	if total != int64(count) {
		return nil, fmt.Errorf("%d IDs, not %d", total, count)
	}
	return ranges, nil
}
