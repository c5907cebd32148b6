package resp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"
)

// issue answers INCR key, LPOP key and LPOP key count.
func (c *conn) issue(name string, args [][]byte) {
	began := c.work.ended // of a pipeline the clock is read once a command
	if began == 0 {
		began = time.Since(c.server.begun) // half of the cost of time.Now
	}
	r, format, token, err := c.request(name, args)
	opts, ctx, traceID, code := &c.server.opts, c.server.base, "", 0
	if opts.Trace != nil {
		var end func(int)
		ctx, traceID, end = opts.Trace(ctx, name, r.Mode.String())
		defer func() { end(code) }()
	}
	var ids []int64
	var texts []string
	r.Texts = name != "INCR" && format == model.Dec
	if err == nil && r.Count > issuer.Large {
		ids, texts, err = c.takeLarge(ctx, token, r)
	} else if err == nil {
		ids, texts, err = opts.Issuer.Issue(ctx, token, r, c.room(r.Count))
	}
	if c.integers == refused && err == nil && name == "INCR" && ids[0] > exact {
		err = c.rounds()
	}
	if err == nil {
		c.server.answers.Add(0)
	} else if errors.Is(err, errGone) {
		return
	}
	c.work.ended = time.Since(c.server.begun)
	took := c.work.ended - began
	switch {
	case err != nil:
		code = c.failed(err)
	case name == "INCR" && c.integers != big:
		c.work.out = appendInteger(c.work.out, ids[0])
	default:
		c.answer(name, len(args) > 1, ids, texts, format)
	}
	c.endTurn()
	c.keep(ids)
	if r.Mode != 0 {
		opts.Issuer.Traffic.Observe(r.Mode, code, took)
	}
	if opts.Observe != nil {
		opts.Observe(issuer.Command{Name: name, Key: c.shownKey(r, args, code), Count: r.Count, Code: code, Took: took,
			TraceID: traceID, Token: token.Name()})
	}
}

// answer writes IDs, or texts in their place; as an array for LPOP with a count.
func (c *conn) answer(name string, array bool, ids []int64, texts []string, format model.Format) {
	out := &c.work.out
	if array {
		*out = appendArray(*out, len(ids)+len(texts))
	}
	switch {
	case name == "INCR" && ids[0] > exact: // of a client that reads them
		*out = appendBig(*out, ids[0])
	case name == "INCR":
		*out = appendInteger(*out, ids[0])
	case texts != nil:
		inPieces(c, texts, func(out []byte, some []string) []byte {
			for _, text := range some {
				out = appendBulk(out, text)
			}
			return out
		})
	case len(ids) <= piece:
		*out = appendIDs(*out, ids, format)
	default:
		inPieces(c, ids, func(out []byte, some []int64) []byte { return appendIDs(out, some, format) })
	}
}

// exact is the largest integer that JavaScript tells from the next one.
const exact = 1<<53 - 1

// rounds is the error for a library that would round an ID, which is left out.
func (c *conn) rounds() error {
	return fmt.Errorf("%w: %s rounds integers above 2^53, so this ID was left out: send LPOP, which answers a string, or speak "+
		"RESP3 (RESP: 3 of node-redis, protocol: 3 of ioredis 6, the default of GLIDE); "+
		"a program that reads integers as strings says so by clientInfoTag: \"strings\"", model.ErrInvalidArgument, c.library)
}

// errGone: the client takes no answer, so that nothing is issued for it.
var errGone = errors.New("the client is gone")

// takeLarge asks for many. A client that waits for its turn holds nothing; the turn lasts until the
// answer has been sent.
func (c *conn) takeLarge(ctx context.Context, token *access.Token, r issuer.Request) (ids []int64, texts []string, err error) {
	defer c.acquire()
	if c.flush() != nil {
		return nil, nil, errGone
	}
	if c.turn, err = c.server.opts.Issuer.Turn(ctx, r); err != nil {
		return nil, nil, err
	}
	return c.server.opts.Issuer.Issue(ctx, token, r, c.room(r.Count))
}

// room is where so many IDs can be appended; keep takes it back.
func (c *conn) room(count int) []int64 {
	if count <= piece {
		return c.work.ids
	}
	if large, ok := c.server.batches.Get().(*[]int64); ok {
		return *large
	}
	return make([]int64, 0, max(count, 2*piece+1))
}

// keep keeps a small one with what all commands need, so that a client that is slow to read
// holds no large one up.
func (c *conn) keep(ids []int64) {
	if cap(ids) > 2*piece {
		empty := ids[:0]
		c.server.batches.Put(&empty)
	} else if ids != nil {
		c.work.ids = ids[:0]
	}
}

// failed answers with an error and gives its code.
func (c *conn) failed(err error) int {
	switch code := issuer.Code(err); {
	case c.server.base.Err() != nil && errors.Is(err, c.server.base.Err()):
		c.fail(-1, "shutting down: nothing was issued, ask another replica")
		return -1
	case code == issuer.CodeInternal:
		c.server.faults.Log(slog.LevelError, "a RESP command failed", "error", err)
		c.fail(code, "internal error: it has been logged, try again")
		return code
	default:
		word := "SHARDID"
		if errors.Is(err, errNoAuth) {
			word = "NOAUTH"
		} else if errors.Is(err, model.ErrNoToken) {
			word = "WRONGPASS"
		}
		c.failAs(word, code, c.server.opts.PublicText(err))
		return code
	}
}
