package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"shardid/client/hold"
	"shardid/client/idtext"
)

// Source is where IDs come from that depend on nothing else. Safe for concurrent use.
type Source struct{ buffer *hold.Pool }

// Next is one ID. Errors: *Error; ErrTimeout, with the cause; ErrClosed; the context's.
func (s *Source) Next(ctx context.Context) (int64, error) { return s.buffer.Next(ctx) }

// Take is n IDs, 1 to MaxTake, or an error.
func (s *Source) Take(ctx context.Context, n int) ([]int64, error) { return takeOf(ctx, s.buffer, n) }

// Queue is where the IDs of an app come from: a buffer for each of its 64 shards. Safe for
// concurrent use.
type Queue struct {
	client *Client
	app    uint8
	shards [idtext.Shards]atomic.Pointer[hold.Pool]
}

// Next is one ID of the shard of gatePass, as Source.Next.
func (q *Queue) Next(ctx context.Context, gatePass string) (int64, error) {
	b, err := q.buffer(gatePass)
	if err != nil {
		return 0, err
	}
	return b.Next(ctx)
}

// Take is n IDs of the shard of gatePass, as Source.Take.
func (q *Queue) Take(ctx context.Context, gatePass string, n int) ([]int64, error) {
	b, err := q.buffer(gatePass)
	if err != nil {
		return nil, err
	}
	return takeOf(ctx, b, n)
}

func (q *Queue) buffer(gatePass string) (*hold.Pool, error) {
	n, err := idtext.CheckedShardOf(gatePass)
	if err != nil {
		return nil, fmt.Errorf("shardid: %w", err)
	}
	shard := &q.shards[n]
	if b := shard.Load(); b != nil {
		return b, nil
	}
	q.client.mu.Lock()
	defer q.client.mu.Unlock()
	if shard.Load() == nil {
		// Any gatePass of the shard gets the shard's IDs.
		path := "/v1/queue/" + strconv.Itoa(int(q.app)) + "/ids?gatePass=" + url.QueryEscape(gatePass) + "&"
		shard.Store(q.client.addBuffer(path))
	}
	return shard.Load(), nil
}

// Number is where the business numbers of a tag come from. Safe for concurrent use.
type Number struct {
	client *Client
	path   string
}

// Next is one text, as Source.Next.
func (n *Number) Next(ctx context.Context) (string, error) {
	texts, err := n.Take(ctx, 1)
	if err != nil {
		return "", err
	}
	return texts[0], nil
}

// Take is count texts, 1 to MaxNumbers, from one request.
func (n *Number) Take(ctx context.Context, count int) (texts []string, err error) {
	if count < 1 || count > maxBatch {
		return nil, fmt.Errorf("shardid: %d numbers: ask for 1 to %d", count, maxBatch)
	}
	err = n.client.askNow(ctx, question{method: http.MethodPost, path: n.path + strconv.Itoa(count)},
		func(a answer) error {
			if texts = a.IDs; len(texts) != count {
				return fmt.Errorf("%d IDs, not %d", len(texts), count)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return texts, nil
}
