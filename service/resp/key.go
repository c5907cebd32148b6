package resp

import (
	"bytes"
	"fmt"
	"strconv"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"
)

// request reads the arguments and finds the token. A request of the token's rate is used
// up, as over HTTP.
func (c *conn) request(name string, args [][]byte) (
	r issuer.Request, format model.Format, token *access.Token, err error,
) {
	r.Count = 1
	switch {
	case name == "INCR" && len(args) != 1:
		return r, 0, nil, fmt.Errorf("%w: INCR takes a key and nothing else", model.ErrInvalidArgument)
	case len(args) != 1 && len(args) != 2:
		return r, 0, nil, fmt.Errorf("%w: %s takes a key and an optional count", model.ErrInvalidArgument, name)
	}
	if token, err = c.admit(); err != nil {
		return r, 0, nil, err
	}
	key, format, formatted := cutFormat(args[0])
	if err := parseKey(key, &r); err != nil {
		return r, format, token, err
	}
	if formatted && name == "INCR" {
		return r, format, token, fmt.Errorf("%w: INCR answers an integer: send LPOP for an ID in the format %s",
			model.ErrInvalidArgument, format)
	}
	if len(args) == 2 {
		count, err := strconv.ParseUint(string(args[1]), 10, 31)
		if err != nil || count < 1 || count > model.MaxBatch {
			return r, format, token, fmt.Errorf("%w: count must be a whole number in 1…%d, not %s",
				model.ErrInvalidArgument, model.MaxBatch, quote(args[1]))
		}
		r.Count = int(count)
	}
	return r, format, token, nil
}

// errNoAuth: the client has not said a token.
var errNoAuth = fmt.Errorf("%w: send AUTH with a token first", model.ErrNoToken)

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
func cutFormat(key []byte) (rest []byte, format model.Format, found bool) {
	name, rest, more := bytes.Cut(key, []byte(":"))
	switch string(name) {
	case "queue", "segment", "snowflake", "uid", "sequence": // no further look, which costs
		return key, model.Dec, false
	}
	format, err := model.ParseFormat(string(name))
	if err != nil || !more {
		return key, model.Dec, false
	}
	if inner, padded := bytes.CutPrefix(rest, []byte("padded:")); padded {
		return inner, format.Padded(), true
	}
	return rest, format, true
}

// parseKey reads queue:<appId>:<gatePass>, segment:<tag>, snowflake or uid. What takes the key of a
// sequence has not come here: see gather.
func parseKey(key []byte, r *issuer.Request) error {
	mode, rest, more := bytes.Cut(key, []byte(":"))
	switch {
	case string(mode) == "queue" && more:
		app, gatePass, complete := bytes.Cut(rest, []byte(":"))
		id, err := strconv.ParseUint(string(app), 10, 8)
		if err != nil || !complete {
			return fmt.Errorf("%w: %s is not queue:<appId>:<gatePass> with an appId of 0…%d", model.ErrInvalidArgument, quote(key), model.Apps-1)
		}
		r.Mode, r.App, r.GatePass = access.Queue, int(id), string(gatePass)
	case string(mode) == "segment" && more:
		r.Mode, r.Tag = access.Segment, string(rest)
	case string(key) == "snowflake":
		r.Mode = access.Snowflake
	case string(key) == "uid":
		r.Mode = access.UID
	case string(mode) == "sequence":
		r.Mode = access.Sequence
		return fmt.Errorf("%w: a sequence takes INCR sequence:<space>:<key>, or INCRBY with how many numbers, and has no formats", model.ErrInvalidArgument)
	default:
		return fmt.Errorf("%w: no key %s: there are queue:<appId>:<gatePass>, segment:<tag>, sequence:<space>:<key>, snowflake and uid, "+
			"with a format such as base62: or base62:padded: before it or none", model.ErrInvalidArgument, quote(key))
	}
	return nil
}

// quote shows a client its value, cut so that an answer stays short.
func quote(value []byte) string {
	const most = 64
	if len(value) > most {
		return strconv.Quote(string(value[:most])) + "…"
	}
	return strconv.Quote(string(value))
}

// hidden stands in the log for what a client sent in the wrong place: it may be a secret, or
// name a person.
const hidden = "(hidden)"

// shownKey is what the log may say of the key of a command that was answered with code: a
// mode, an app without the gatePass, and a tag if it is known.
func (c *conn) shownKey(r issuer.Request, args [][]byte, code int) []byte {
	if len(args) == 0 {
		return nil
	}
	whole := args[0]
	switch known := c.server.opts.KnownTag; {
	case r.Mode == access.Queue:
		key, _, _ := cutFormat(whole)
		_, gatePass, _ := bytes.Cut(key[len("queue:"):], []byte(":"))
		return whole[:len(whole)-len(gatePass)-1]
	case r.Mode == access.Segment && code != 0 && (known == nil || !known(r.Tag)):
		return append(bytes.Clone(whole[:len(whole)-len(r.Tag)]), hidden...)
	case r.Mode == access.Sequence:
		return []byte(sequencePrefix + hidden)
	case r.Mode == 0:
		return []byte(hidden)
	}
	return whole
}
