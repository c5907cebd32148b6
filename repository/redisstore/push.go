package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

const (
	// pieceLen bounds the indices of one script call, which blocks Redis for
	// some 0.2 µs each.
	pieceLen = 2_000
	// pushPipelined bounds the indices sent in one round trip, for which Redis
	// answers no other client: some 2 ms.
	pushPipelined = 10_000
)

// piece is the part of a request that one script call pushes.
type piece struct {
	req    int // position of the request
	offset int64
	model.Segment
}

// Push appends segments, at most one attempt each, and answers in order. A long
// segment goes in pieces, each after the one before has arrived; when one fails
// the rest of the segment is dropped.
//
// Whatever is pushed at the same time takes turns, a round trip each, so that
// pops find Redis free in between.
func (s *Store) Push(ctx context.Context, reqs []model.PushRequest) []error {
	errs := make([]error, len(reqs))
	var todo []piece
	for i, r := range reqs {
		if seg := r.Segment; seg.First < 1 || seg.Last < seg.First || seg.Last > model.MaxIndex || r.Life == "" {
			errs[i] = explain("push", fmt.Errorf("%w: segment %d…%d of list %s, life %q", model.ErrInvalidArgument, seg.First, seg.Last, r.Key, r.Life))
			continue
		}
		todo = append(todo, pieceAt(r, i, 0))
	}
	for len(todo) > 0 {
		batch := todo[:batchLen(todo)]
		todo = todo[len(batch):]
		calls := make([]call, len(batch))
		for i, p := range batch {
			r := reqs[p.req] // the cap is raised by the pieces that are already there
			calls[i] = call{[]string{metaKey(r.Key)}, []any{s.self(), r.Life, p.First, p.Last, r.Cap + p.offset}}
		}
		results := s.pushInTurn(ctx, calls)
		for i, p := range batch {
			errs[p.req] = s.pushError(results[i])
			if next := p.offset + p.Len(); errs[p.req] == nil && next < reqs[p.req].Segment.Len() {
				todo = append(todo, pieceAt(reqs[p.req], p.req, next))
			}
		}
		if err := s.silence("push", results); err != nil {
			for _, p := range todo {
				errs[p.req] = err
			}
			break
		}
	}
	return errs
}

// pushTurns is how many pipelines of pushes may be under way at once: one for
// each server. A cluster has many, and one that is away must not stop the pushes
// to the others.
func (o Options) pushTurns() int {
	if o.Mode == ModeCluster {
		return writerPoolSize
	}
	return 1
}

// pushInTurn is one round trip. Without a turn before the context ends nothing is
// sent.
func (s *Store) pushInTurn(ctx context.Context, calls []call) []result {
	select {
	case s.pushing <- struct{}{}:
		defer func() { <-s.pushing }()
		results := s.push.runAll(ctx, s.writer, calls)
		for i, r := range results {
			if node := s.asked(ctx, r.err); node != nil {
				results[i] = s.pushAsking(ctx, node, calls[i])
			}
		}
		return results
	case <-ctx.Done():
		return slices.Repeat([]result{{err: context.Cause(ctx)}}, len(calls))
	}
}

// asked gives the node that a cluster's ASK names: it gets the slot at present. It is
// nil for any other error.
func (s *Store) asked(ctx context.Context, err error) (node *redis.Client) {
	cluster, ok := s.writer.(*redis.ClusterClient)
	if !ok || !redis.HasErrorPrefix(err, "ASK ") {
		return nil
	}
	words := strings.Fields(err.Error()) // ASK, slot, address
	var mu sync.Mutex                    // ForEachMaster calls from a goroutine for each node
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Options().Addr == words[len(words)-1] {
			node = c
		}
		return nil
	})
	return node
}

// pushAsking pushes through the node that ASK has named. The other one has executed
// nothing for sure, so this is still the only attempt; and where the slot's list has
// another life by now, the script refuses.
func (s *Store) pushAsking(ctx context.Context, node *redis.Client, in call) result {
	pipe := node.Pipeline()
	_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking")) // only queues
	cmd := s.push.byText(ctx, in)
	_ = pipe.Process(ctx, cmd)
	_, execErr := pipe.Exec(ctx)
	if cmd.Val() == "" && cmd.Err() == nil {
		return result{err: unanswered(execErr)}
	}
	return result{cmd.Val(), cmd.Err()}
}

// Mark raises high-water marks that are lower than asked for, and answers in order:
// nil, model.ErrLifeChanged, or a *model.StoreError. It may be repeated.
func (s *Store) Mark(ctx context.Context, reqs []model.MarkRequest) []error {
	calls := make([]call, len(reqs))
	for i, r := range reqs {
		calls[i] = call{[]string{metaKey(r.Key)}, []any{s.self(), r.Life, r.Index + 1, r.Index, math.MaxInt64}}
	}
	errs := make([]error, len(reqs))
	for i, r := range s.push.runParts(ctx, s.reader, calls) {
		if err := s.pushError(r); !errors.Is(err, model.ErrNotAboveHighWater) {
			errs[i] = err
		}
	}
	return errs
}

func pieceAt(r model.PushRequest, req int, offset int64) piece {
	first := r.Segment.First + offset
	return piece{req, offset, model.Segment{First: first, Last: min(first+pieceLen-1, r.Segment.Last)}}
}

// batchLen is how many of the pieces go into the next pipeline: at least one.
func batchLen(todo []piece) int {
	indices := int64(0)
	for i, p := range todo {
		if indices += p.Len(); i > 0 && indices > pushPipelined || i == pipelineCalls {
			return i
		}
	}
	return len(todo)
}

func (s *Store) pushError(r result) error {
	if r.err != nil {
		return s.fail("push", r.err)
	}
	switch r.reply {
	case "ok":
		return nil
	case "life":
		return model.ErrLifeChanged
	case "highwater":
		return model.ErrNotAboveHighWater
	case "full":
		return model.ErrListFull
	default:
		return explain("push", fmt.Errorf("%w: push answered %.80q", errMalformed, r.reply))
	}
}
