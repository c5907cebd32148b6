package resp

import (
	"errors"
	"fmt"
	"net"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"
)

// flushAt is how much of a pipeline's answers is held before it is sent, in bytes. A
// buffer that grew beyond twice of it is not kept.
const flushAt = 32 << 10

// conn is one client.
type conn struct {
	net.Conn
	server *Server
	id     int64
	in     reader
	work   *scratch     // nil while the client is waited for
	check  func() error // of the client's certificate; nil for none

	resp3 bool
	name  string             // of CLIENT SETNAME
	token *access.Credential // of AUTH
	quit  bool
}

func (c *conn) serve() {
	for !c.quit {
		command, err := c.in.next()
		if err == nil {
			c.acquire()
			if c.trusted() {
				c.handle(command)
			}
			if len(c.work.out) < flushAt {
				continue
			}
			err = c.flush()
		} else if broken, ok := errors.AsType[protocolError](err); ok {
			c.acquire()
			c.work.out = appendError(c.work.out, "ERR "+broken.Error())
			c.quit = true
		}
		if err != nil && !c.quit {
			return
		}
	}
	_ = c.flush()
}

func (c *conn) acquire() {
	if c.work == nil {
		c.work, _ = c.server.scratch.Get().(*scratch)
	}
}

// flush sends what is held and gives the buffers back: a client that is waited for holds
// none.
func (c *conn) flush() error {
	if c.work == nil {
		return nil
	}
	_, err := c.Write(c.work.out)
	c.release()
	return err
}

func (c *conn) release() {
	if c.work == nil {
		return
	}
	if cap(c.work.out) > 2*flushAt {
		c.work.out = nil
	}
	c.work.out, c.work.ended = c.work.out[:0], 0
	c.server.scratch.Put(c.work)
	c.work = nil
}

// fail answers with an error of the public table. Its first word is one that clients do
// not interpret.
func (c *conn) fail(code int, text string) {
	c.server.answers.Add(code)
	c.work.out = appendError(c.work.out, fmt.Sprintf("SHARDID %d %s", code, text))
}

// trusted says whether the client's certificate still is; otherwise the connection ends.
func (c *conn) trusted() bool {
	if c.check == nil {
		return true
	}
	err := c.check()
	if err != nil {
		c.fail(-7, err.Error())
		c.quit = true
	}
	return err == nil
}

// handle answers one command.
func (c *conn) handle(command [][]byte) {
	args := command[1:]
	out := &c.work.out
	switch name := upper(command[0]); string(name) {
	case "INCR":
		c.issue("INCR", args)
	case "INCRBY": // what redis-py sends for incr
		if len(args) != 2 || string(args[1]) != "1" {
			c.fail(-6, "INCRBY takes a key and 1: for more IDs send LPOP with a count")
			return
		}
		c.issue("INCR", args[:1])
	case "LPOP":
		c.issue("LPOP", args)
	case "RPOP":
		c.issue("RPOP", args)
	case "PING":
		switch len(args) {
		case 0:
			*out = appendSimple(*out, "PONG")
		case 1:
			*out = appendBulk(*out, args[0])
		default:
			c.wrongArity("PING", "an optional text")
		}
	case "ECHO":
		if len(args) != 1 {
			c.wrongArity("ECHO", "a text")
			return
		}
		*out = appendBulk(*out, args[0])
	case "HELLO":
		c.hello(args)
	case "AUTH":
		c.auth(args)
	case "SELECT":
		if len(args) != 1 || string(args[0]) != "0" {
			c.fail(-6, "there is one database: SELECT 0")
			return
		}
		*out = appendSimple(*out, "OK")
	case "CLIENT":
		c.client(args)
	case "COMMAND":
		// What clients ask for when they connect; the table is in docs/clients.md.
		if len(args) == 1 && string(upper(args[0])) == "COUNT" {
			*out = appendInteger(*out, commands)
			return
		}
		*out = appendArray(*out, 0)
	case "INFO":
		*out = appendBulk(*out, c.server.info())
	case "RESET":
		c.resp3, c.name, c.token = false, "", nil
		*out = appendSimple(*out, "RESET")
	case "QUIT":
		*out = appendSimple(*out, "OK")
		c.quit = true
	default:
		c.fail(issuer.CodeNoRoute, fmt.Sprintf("there is no command %s: INCR, LPOP and RPOP issue IDs", quote(command[0])))
	}
}

// commands is how many handle knows.
const commands = 14

func (c *conn) wrongArity(name, want string) {
	c.fail(-6, fmt.Sprintf("%s takes %s and nothing else", name, want))
}

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
	if err == nil {
		c.work.ids, err = opts.Issuer.Issue(ctx, token, r, c.work.ids[:0])
	}
	var texts []string
	if errors.Is(err, model.ErrPattern) && name != "INCR" && format == 0 {
		texts, err = opts.Issuer.IssueNumbers(ctx, r, nil)
	}
	if err == nil {
		c.server.answers.Add(0)
	}
	switch out := &c.work.out; {
	case err != nil:
		code = c.failed(err)
	case texts != nil && len(args) == 1:
		*out = appendBulk(*out, texts[0])
	case texts != nil:
		*out = appendArray(*out, len(texts))
		for _, text := range texts {
			*out = appendBulk(*out, text)
		}
	case name == "INCR":
		*out = appendInteger(*out, c.work.ids[0])
	case len(args) == 1:
		*out = appendIDs(*out, c.work.ids, format)
	default:
		*out = appendIDs(appendArray(*out, len(c.work.ids)), c.work.ids, format)
	}
	c.work.ended = time.Since(c.server.begun)
	took := c.work.ended - began
	if r.Mode != 0 {
		opts.Issuer.Observe(r.Mode, code, took)
	}
	if opts.Observe != nil {
		opts.Observe(issuer.Command{Name: name, Key: shownKey(args), Count: r.Count, Code: code, Took: took,
			TraceID: traceID, Token: token.Name()})
	}
}

// failed answers with an error and gives its code.
func (c *conn) failed(err error) int {
	switch code := issuer.Code(err); {
	case c.server.base.Err() != nil && errors.Is(err, c.server.base.Err()):
		c.fail(-1, "shutting down: nothing was issued, ask another replica")
		return -1
	case code == issuer.CodeInternal:
		c.server.faults.Do(func() { c.server.opts.Log.Error("a RESP command failed", "error", err) })
		c.fail(code, "internal error: it has been logged, try again")
		return code
	default:
		c.fail(code, c.server.opts.PublicText(err))
		return code
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
			c.name = string(args[1])
			args = args[2:]
		default:
			c.fail(-6, "HELLO takes a version, AUTH with user and token, and SETNAME with a name")
			return
		}
	}
	c.resp3 = resp3
	proto := int64(2)
	if resp3 {
		proto = 3
	}
	out := appendMap(c.work.out, resp3, 7)
	out = appendBulk(appendBulk(out, "server"), "shardid")
	out = appendBulk(appendBulk(out, "version"), c.server.opts.Version)
	out = appendInteger(appendBulk(out, "proto"), proto)
	out = appendInteger(appendBulk(out, "id"), c.id)
	out = appendBulk(appendBulk(out, "mode"), "standalone")
	out = appendBulk(appendBulk(out, "role"), "master")
	c.work.out = appendArray(appendBulk(out, "modules"), 0)
}

// auth answers AUTH token and AUTH user token; the user is not looked at.
func (c *conn) auth(args [][]byte) {
	if len(args) != 1 && len(args) != 2 {
		c.wrongArity("AUTH", "a token, with or without a user before it,")
		return
	}
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

// client answers what clients say of themselves when they connect.
func (c *conn) client(args [][]byte) {
	out := &c.work.out
	option := ""
	if len(args) > 0 {
		option = string(upper(args[0]))
	}
	switch {
	case option == "SETNAME" && len(args) == 2:
		c.name = string(args[1])
		*out = appendSimple(*out, "OK")
	case option == "GETNAME":
		*out = appendBulk(*out, c.name)
	case option == "SETINFO" && len(args) == 3, option == "NO-EVICT", option == "NO-TOUCH":
		*out = appendSimple(*out, "OK")
	case option == "ID":
		*out = appendInteger(*out, c.id)
	default:
		c.fail(issuer.CodeNoRoute, "CLIENT has SETNAME, GETNAME, SETINFO and ID here")
	}
}

// info is what clients look for before they use a server.
func (s *Server) info() string {
	return fmt.Sprintf("# Server\r\nserver_name:shardid\r\nshardid_version:%s\r\nredis_mode:standalone\r\n"+
		"# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
		s.opts.Version)
}

// upper makes a name upper case where it is.
func upper(name []byte) []byte {
	for i, c := range name {
		if 'a' <= c && c <= 'z' {
			name[i] = c - 'a' + 'A'
		}
	}
	return name
}
