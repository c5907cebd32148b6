package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

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
		if seg := r.Segment; seg.First < 1 || seg.Last < seg.First-1 || seg.Last > model.MaxIndex || r.Life == "" {
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
			calls[i] = call{[]string{metaKey(r.Key)}, []any{s.deploymentID(), r.Life, p.First, p.Last, r.Cap + p.offset}}
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
			if addr := asked(r.err); addr != "" {
				cmd := s.push.byText(ctx, calls[i])
				results[i].err = s.ask(ctx, addr, cmd)
				results[i].reply = cmd.Val()
			}
		}
		return results
	case <-ctx.Done():
		return slices.Repeat([]result{{err: context.Cause(ctx)}}, len(calls))
	}
}

// asked gives the address that a cluster's ASK names: that node gets the slot at present,
// and may own none yet. It is "" for any other error.
func asked(err error) string {
	if err == nil || !redis.HasErrorPrefix(err, "ASK ") {
		return ""
	}
	_, addr, _ := strings.Cut(strings.TrimPrefix(err.Error(), "ASK "), " ")
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return ""
	}
	return net.JoinHostPort(strings.Trim(addr[:at], "[]"), addr[at+1:])
}

// ask sends a command to the node that ASK has named. The other one has executed nothing for
// sure, so this is still the only attempt; and where the slot's list has another life by now,
// a push is refused.
func (s *Store) ask(ctx context.Context, addr string, cmd redis.Cmder) error {
	node := s.writerOf(addr)
	defer node.Close()
	pipe := node.Pipeline()
	_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking")) // only queues
	_ = pipe.Process(ctx, cmd)
	_, execErr := pipe.Exec(ctx) // where the connection is refused, only this tells
	return cmp.Or(cmd.Err(), execErr)
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
