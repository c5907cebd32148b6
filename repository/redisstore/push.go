package redisstore

import (
	"context"
	"fmt"
	"slices"

	"shardid/model"
)

const (
	// pieceLen bounds the indices of one script call, which blocks Redis for
	// some 0.2 µs each.
	pieceLen = 2_000
	// pushPipelined bounds the indices sent in one round trip, for which Redis
	// answers no other client: some 2 ms.
	pushPipelined = 10_000
	// clusterTurns is how many pipelines of pushes may be under way at once in a cluster,
	// where a server that is away must not stop the pushes to others. At one server it is one.
	clusterTurns = 8
)

// piece is the part of a request that one script call pushes.
type piece struct {
	req    int // position of the request
	offset int64
	model.Segment
}

// Push appends segments and answers in order. A long segment goes in pieces, each
// after the one before has arrived; when one fails the rest of the segment is dropped.
// After an error the list may hold some of the segment, each index once: it is never
// to be pushed again. Errors: model.ErrLifeChanged, model.ErrListFull,
// model.ErrNotAboveHighWater, also for what was repeated after a lost answer,
// *model.StoreError.
//
// Whatever is pushed at the same time takes turns, a round trip each, so that
// pops find Redis free in between.
func (s *Store) Push(ctx context.Context, reqs []model.PushRequest) []error {
	errs := make([]error, len(reqs))
	var todo []piece
	for i, r := range reqs {
		if seg := r.Segment; seg.First < 1 || seg.Last < seg.First-1 || seg.Last > model.MaxIndex || r.Life == "" {
			errs[i] = explain("push", fmt.Errorf("%w: segment %d…%d of list %s, life %q",
				model.ErrInvalidArgument, seg.First, seg.Last, r.Key, r.Life))
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
			args := []any{s.deploymentID(), r.Life, p.First, p.Last, r.Cap + p.offset}
			calls[i] = call{[]string{metaKey(r.Key)}, args}
		}
		var results []result
		select {
		case s.pushing <- struct{}{}:
			results = s.push.runAll(ctx, s.client, calls)
			<-s.pushing
		case <-ctx.Done(): // nothing is sent
			results = slices.Repeat([]result{{err: context.Cause(ctx)}}, len(calls))
		}
		for i, p := range batch {
			errs[p.req] = s.pushError(results[i])
			if next := p.offset + p.Len(); errs[p.req] == nil && next < reqs[p.req].Segment.Len() {
				todo = append(todo, pieceAt(reqs[p.req], p.req, next))
			}
		}
		if err := silence(results); err != nil {
			for _, p := range todo {
				errs[p.req] = explain("push", err)
			}
			break
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
