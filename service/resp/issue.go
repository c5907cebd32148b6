package resp

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"
)

// issue answers INCR key, LPOP key and LPOP key count. A large batch has its turn until its answer has been sent.
func (c *conn) issue(name string, args [][]byte) {
	began, modes := c.began(), c.server.opts.Issuer
	r, format, token, err := c.request(name, args)
	if err == nil && r.Count > issuer.Large {
		var pass func()
		if pass, err = c.takeTurn(r); err == nil {
			defer pass()
		}
	}
	var ids []int64
	var texts []string
	if err == nil {
		ids, texts, err = modes.Issue(c.server.base, token, r, c.work.ids[:0])
	}
	if err == nil && c.integers == refused && name == "INCR" && ids[0] > exact {
		err = c.rounds()
	}
	c.work.ended = time.Since(c.server.begun)
	code, took := 0, c.work.ended-began
	switch out := &c.work.out; {
	case err != nil:
		code = c.failed(err)
	case name == "INCR" && c.integers == big && ids[0] > exact:
		*out = appendBig(*out, ids[0])
	case name == "INCR":
		*out = appendInteger(*out, ids[0])
	default:
		if len(args) > 1 {
			*out = appendArray(*out, len(ids)+len(texts))
		}
		for _, text := range texts {
			*out = appendBulk(*out, text)
		}
		*out = appendIDs(*out, ids, format)
	}
	if ids != nil {
		c.work.ids = ids
	}
	if r.Mode != 0 { // which the key says
		modes.Traffic.Observe(r.Mode, code, took)
	}
}

// takeTurn waits for the turn of a large batch; pass sends its answer and ends the turn. A client that waits holds no
// buffers. Those that grow are used in turns alone, so that a client that is slow to read holds none of them.
func (c *conn) takeTurn(r issuer.Request) (pass func(), err error) {
	_ = c.flush() // an error ends the connection
	done, err := c.server.opts.Issuer.Turn(c.server.base, r)
	if err != nil {
		c.acquire()
		return nil, err
	}
	c.work, _ = c.server.large.Get().(*scratch)
	return func() {
		_ = c.send() // likewise
		c.server.large.Put(c.work)
		c.work = nil
		c.acquire()
		done()
	}, nil
}

// request reads the arguments and finds the token. A request of the token's rate is used
// up, as over HTTP.
func (c *conn) request(name string, args [][]byte) (
	r issuer.Request, format idtext.Format, token *access.Token, err error,
) {
	r.Count = 1
	if token, err = c.admit(); err != nil {
		return r, 0, nil, err
	}
	key, format, formatted := cutFormat(args[0])
	switch err = parseKey(key, &r); {
	case err != nil:
	case formatted && name == "INCR":
		err = fmt.Errorf("%w: send LPOP for an ID in the format %s: INCR answers an integer",
			model.ErrInvalidArgument, format)
	case len(args) == 2:
		r.Count, err = model.ParseRange("count must be", args[1], 1, model.MaxBatch)
	}
	r.Texts = name != "INCR" && format == idtext.Dec
	return r, format, token, err
}

// errNoAuth: the client has not said a token.
var errNoAuth = fmt.Errorf("send AUTH with a token first: %w", model.ErrNoToken)

// admit finds the token, nil where none is required.
func (c *conn) admit() (*access.Token, error) {
	switch {
	case !c.server.opts.RequireToken:
		return nil, nil
	case c.token == nil:
		return nil, errNoAuth
	}
	return c.server.opts.Access.Use(*c.token)
}

// cutFormat takes base62: or base62:padded: from the beginning of a key. No mode has the
// name of a format.
func cutFormat(key []byte) (rest []byte, format idtext.Format, found bool) {
	name, rest, more := bytes.Cut(key, []byte(":"))
	switch string(name) {
	case "queue", "list", "segment", "sharded", "snowflake", "uid", "sequence": // no further look, which costs
		return key, idtext.Dec, false
	}
	format, err := idtext.ParseFormat(string(name))
	if err != nil || !more {
		return key, idtext.Dec, false
	}
	if inner, padded := bytes.CutPrefix(rest, []byte("padded:")); padded {
		return inner, format.Padded(), true
	}
	return rest, format, true
}

// parseKey reads queue:<appId>:<gatePass>, list:<appId>:<shard>, segment:<tag>, sharded:<tag>:<shard key>, snowflake or
// uid. What takes the key of a sequence has not come here: see gather.
func parseKey(key []byte, r *issuer.Request) error {
	mode, rest, more := bytes.Cut(key, []byte(":"))
	switch {
	case (string(mode) == "queue" || string(mode) == "list") && more:
		app, shard, complete := bytes.Cut(rest, []byte(":"))
		id, err := strconv.ParseUint(string(app), 10, 8)
		if err != nil || !complete {
			return fmt.Errorf("%w: write queue:<appId>:<gatePass> or list:<appId>:<shard> with an appId of 0…%d, "+
				"not %.64q", model.ErrInvalidArgument, model.Apps-1, key)
		}
		r.Mode, r.App = model.ModeQueue, int(id)
		if string(mode) == "queue" {
			r.Shard, err = idtext.CheckedShardOf(string(shard))
			return err
		}
		n, err := model.ParseRange("shard must be", shard, 0, model.Shards-1)
		r.Shard = uint8(n)
		return err
	case string(mode) == "segment" && more:
		r.Mode, r.Tag = model.ModeSegment, string(rest)
	case string(mode) == "sharded" && more:
		end := max(0, bytes.LastIndexByte(rest, ':'))
		r.Mode, r.Tag = model.ModeSegment, string(rest[:end])
		if end == 0 {
			return fmt.Errorf("%w: write sharded:<tag>:<shard key>, not %.64q", model.ErrInvalidArgument, key)
		}
		var err error
		r.ShardKey, err = model.ReadShardKey(string(rest[end+1:]))
		return err
	case string(key) == "snowflake":
		r.Mode = model.ModeSnowflake
	case string(key) == "uid":
		r.Mode = model.ModeUID
	case string(mode) == "sequence":
		r.Mode = model.ModeSequence
		return fmt.Errorf("%w: send INCR sequence:<space>:<key>, or INCRBY with how many numbers: a sequence takes "+
			"nothing else, and has no formats", model.ErrInvalidArgument)
	default:
		return fmt.Errorf("%w: use queue:<appId>:<gatePass>, list:<appId>:<shard>, segment:<tag>, "+
			"sharded:<tag>:<shard key>, sequence:<space>:<key>, snowflake or uid, with a format such as base62: or "+
			"base62:padded: before it, or none: there is no key %.64q", model.ErrInvalidArgument, key)
	}
	return nil
}

// failed answers with an error and gives its code.
func (c *conn) failed(err error) (code int) {
	switch code = issuer.Code(err); {
	case c.server.base.Err() != nil && errors.Is(err, c.server.base.Err()):
		code = issuer.CodeNotReady
		c.fail(code, "ask another replica: shutting down, nothing was issued")
	case code == issuer.CodeInternal:
		c.server.opts.Issuer.Traffic.Fault()
		c.server.faults.Log(slog.LevelError, "a RESP command failed", "error", err)
		c.fail(code, "try again: internal error, which has been logged")
	case errors.Is(err, errNoAuth):
		c.failAs("NOAUTH", code, c.server.opts.PublicText(err))
	case errors.Is(err, model.ErrNoToken):
		c.failAs("WRONGPASS", code, c.server.opts.PublicText(err))
	default:
		c.fail(code, c.server.opts.PublicText(err))
	}
	return code
}

// integers says how INCR writes an ID above what JavaScript's numbers hold.
type integers int

const (
	plain   integers = iota // as every other
	big                     // as a big number of RESP3, which the client is known to read exactly
	refused                 // not at all: the client is known to round it
)

// exact is the largest integer that JavaScript tells from the next one.
const exact = 1<<53 - 1

// setIntegers goes by the library that the client names. Those that round tell a big number from an
// integer; others, such as Lettuce and older Jedis, fail on one. A program whose library reads integers as
// strings says so by the library's tag, as in "ioredis(strings)".
func (c *conn) setIntegers() {
	library, tag, _ := strings.Cut(c.library, "(")
	switch rounds := library == "node-redis" || library == "ioredis" || library == "GlideJS"; {
	case rounds && c.resp3:
		c.integers = big
	case rounds && tag != "strings)":
		c.integers = refused
	default:
		c.integers = plain
	}
}

// rounds is the error for a library that would round an ID, which is left out.
func (c *conn) rounds() error {
	return fmt.Errorf("%w: send LPOP, which answers a string, or speak RESP3 (RESP: 3 of node-redis, protocol: 3 of "+
		"ioredis 6, the default of GLIDE), or say clientInfoTag: \"strings\" in a program that reads integers as "+
		"strings: %s rounds integers above 2^53, so this ID was skipped", model.ErrInvalidArgument, c.library)
}
