package resp

import (
	"fmt"
	"strings"
	"time"

	"shardid/service/access"
	"shardid/service/issuer"
)

// integers says how INCR writes an ID above what JavaScript's numbers hold.
type integers int

const (
	plain   integers = iota // as every other
	big                     // as a big number of RESP3, which the client is known to read exactly
	refused                 // not at all: the client is known to round it
)

// stringsTag is the tag of a library, as in "ioredis(strings)", by which a program says that it
// reads integers exactly.
const stringsTag = "(strings)"

// setIntegers goes by the library that the client names. Those that round tell a big number from an
// integer; others, such as Lettuce and older Jedis, fail on one.
func (c *conn) setIntegers() {
	library, _, _ := strings.Cut(c.library, "(")
	switch rounds := library == "node-redis" || library == "ioredis" || library == "GlideJS"; {
	case rounds && c.resp3:
		c.integers = big
	case rounds && !strings.HasSuffix(c.library, stringsTag):
		c.integers = refused
	default:
		c.integers = plain
	}
}

// hello answers HELLO [version [AUTH user token] [SETNAME name]].
func (c *conn) hello(args [][]byte) {
	resp3 := c.resp3
	if len(args) > 0 {
		switch string(args[0]) {
		case "2", "3":
			resp3 = args[0][0] == '3'
		default:
			c.work.out = appendError(c.work.out, "NOPROTO unsupported protocol version")
			return
		}
		args = args[1:]
	}
	for len(args) > 0 {
		switch option := string(upper(args[0])); {
		case option == "AUTH" && len(args) >= 3:
			if !c.authenticate(args[2]) {
				return
			}
			args = args[3:]
		case option == "SETNAME" && len(args) >= 2:
			if !c.keepText(&c.name, args[1]) {
				return
			}
			args = args[2:]
		default:
			c.fail(-6, "HELLO takes a version, AUTH with user and token, and SETNAME with a name")
			return
		}
	}
	c.resp3 = resp3
	c.setIntegers()
	out := appendMap(c.work.out, resp3, 7)
	out = appendBulk(appendBulk(out, "server"), "shardid")
	out = appendBulk(appendBulk(out, "version"), c.server.opts.Version)
	out = appendInteger(appendBulk(out, "proto"), c.protocol())
	out = appendInteger(appendBulk(out, "id"), c.id)
	out = appendBulk(appendBulk(out, "mode"), "standalone")
	out = appendBulk(appendBulk(out, "role"), "master")
	c.work.out = appendArray(appendBulk(out, "modules"), 0)
}

func (c *conn) protocol() int64 {
	if c.resp3 {
		return 3
	}
	return 2
}

// auth answers AUTH token and AUTH user token; the user is not looked at.
func (c *conn) auth(args [][]byte) {
	if c.authenticate(args[len(args)-1]) {
		c.work.out = appendSimple(c.work.out, "OK")
	}
}

// authenticate keeps the token for the commands to come, each of which looks whether it is
// still valid. Without server.require_token any is taken, as over HTTP.
func (c *conn) authenticate(token []byte) bool {
	credential := access.NewCredential(token)
	if c.server.opts.RequireToken {
		if err := c.server.opts.Access.Check(credential); err != nil {
			c.failed(err)
			return false
		}
	}
	c.token = &credential
	return true
}

func (c *conn) ping(args [][]byte) {
	if len(args) == 0 {
		c.work.out = appendSimple(c.work.out, "PONG")
		return
	}
	c.work.out = appendBulk(c.work.out, args[0])
}

func (c *conn) selectDB(args [][]byte) {
	if string(args[0]) != "0" {
		c.fail(-6, "there is one database: SELECT 0")
		return
	}
	c.work.out = appendSimple(c.work.out, "OK")
}

func (c *conn) reset([][]byte) {
	c.resp3, c.name, c.token, c.multi = false, "", nil, nil
	c.setIntegers()
	c.work.out = appendSimple(c.work.out, "RESET")
}

func (c *conn) leave([][]byte) {
	c.work.out = appendSimple(c.work.out, "OK")
	c.quit = true
}

const clientHas = "SETNAME, GETNAME, SETINFO, ID, INFO, LIST, TRACKING, CACHING, NO-EVICT and NO-TOUCH"

// client answers what clients say of themselves when they connect. A client may cache, but nothing
// is ever invalidated: only GET of a sequence is read twice, and docs/api.md says not to cache it.
func (c *conn) client(args [][]byte) {
	out := &c.work.out
	switch option := string(upper(args[0])); {
	case option == "SETNAME" && len(args) == 2:
		if c.keepText(&c.name, args[1]) {
			*out = appendSimple(*out, "OK")
		}
	case option == "SETINFO" && len(args) == 3:
		where := &c.library
		if string(upper(args[1])) != "LIB-NAME" {
			where = &c.libraryVersion
		}
		if c.keepText(where, args[2]) {
			c.setIntegers()
			*out = appendSimple(*out, "OK")
		}
	case option == "GETNAME":
		*out = appendBulk(*out, c.name)
	case option == "TRACKING", option == "CACHING", option == "NO-EVICT", option == "NO-TOUCH":
		*out = appendSimple(*out, "OK")
	case option == "ID":
		*out = appendInteger(*out, c.id)
	case option == "INFO", option == "LIST": // of others nothing is told
		queued := -1
		if c.executing {
			queued = 0
		}
		*out = appendBulk(*out, fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d idle=0 flags=N db=0 sub=0 psub=0 multi=%d cmd=client|%s user=default resp=%d lib-name=%s lib-ver=%s\n",
			c.id, c.RemoteAddr(), c.LocalAddr(), c.name, int(time.Since(c.since).Seconds()), queued, strings.ToLower(option), c.protocol(), c.library, c.libraryVersion))
	default:
		c.fail(issuer.CodeNoRoute, "CLIENT has "+clientHas+" here")
	}
}

// keepText keeps a name, or answers why it is none.
func (c *conn) keepText(where *string, text []byte) bool {
	const most = 128
	for _, b := range text {
		if b < '!' || b > '~' {
			c.fail(-6, "a name has no spaces and no special characters")
			return false
		}
	}
	if len(text) > most {
		c.fail(-6, fmt.Sprintf("a name has %d characters at most", most))
		return false
	}
	*where = string(text)
	return true
}
