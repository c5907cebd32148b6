package resp

import (
	"fmt"
	"net/http"
	"slices"

	"shardid/service/access"
	"shardid/service/issuer"
)

// command is what answers a command.
type command struct {
	least, most int  // arguments that it takes
	atOnce      bool // also after MULTI
	run         func(c *conn, args [][]byte)
}

// newCommands are all commands, by name.
func newCommands() map[string]command {
	issue := func(name string) func(*conn, [][]byte) {
		return func(c *conn, args [][]byte) { c.issue(name, args) }
	}
	ok := func(c *conn, _ [][]byte) { c.simple("OK") }
	return map[string]command{
		"INCR":    {least: 1, most: 1, run: issue("INCR")},
		"INCRBY":  {least: 2, most: 2, run: (*conn).incrBy},
		"GET":     {least: 1, most: 1, run: (*conn).get},
		"LPOP":    {least: 1, most: 2, run: issue("LPOP")},
		"RPOP":    {least: 1, most: 2, run: issue("RPOP")},
		"MULTI":   {atOnce: true, run: (*conn).begin},
		"EXEC":    {atOnce: true, run: (*conn).exec},
		"DISCARD": {atOnce: true, run: (*conn).discard},
		"WATCH":   {least: 1, most: maxArgs, atOnce: true, run: ok}, // no key changes
		"UNWATCH": {run: ok},
		"PING":    {most: 1, run: (*conn).ping},
		"ECHO":    {least: 1, most: 1, run: (*conn).ping},
		"HELLO":   {most: maxArgs, run: (*conn).hello},
		"AUTH":    {least: 1, most: 2, run: (*conn).auth},
		"SELECT":  {least: 1, most: 1, run: (*conn).selectDB},
		"CLIENT":  {least: 1, most: maxArgs, run: (*conn).client},
		"RESET":   {atOnce: true, run: (*conn).reset},
		"QUIT":    {atOnce: true, run: (*conn).leave},
		"COMMAND": {most: maxArgs, run: (*conn).commandInfo},
		"INFO":    {most: maxArgs, run: (*conn).info},
	}
}

// handle answers one command, or queues it after MULTI. Its name becomes upper case.
func (c *conn) handle(words [][]byte) {
	name, args := upper(words[0]), words[1:]
	if c.multi == nil { // those that are asked for most need no look-up
		if c.gather(name, args) {
			return
		}
		c.flushSequences()
		switch {
		case string(name) == "INCR" && len(args) == 1:
			c.issue("INCR", args)
			return
		case string(name) == "LPOP" && (len(args) == 1 || len(args) == 2):
			c.issue("LPOP", args)
			return
		}
	}
	switch known, found := c.server.commands[string(name)]; {
	case !found:
		// rueidis asks for CLUSTER first, and continues without when the error has this word.
		c.fail(issuer.CodeNoRoute, fmt.Sprintf("send INCR, LPOP or RPOP for IDs: there is no command %.64q", name))
	case len(args) < known.least || len(args) > known.most:
		takes := fmt.Sprint(known.least)
		if known.most > known.least {
			takes += fmt.Sprintf("…%d", known.most)
		}
		c.fail(issuer.CodeInvalid, fmt.Sprintf(
			"send %s with another number of arguments: it takes %s, not %d", name, takes, len(args)))
	case c.multi != nil && !known.atOnce:
		c.queue(words)
		return
	default:
		known.run(c, args)
		return
	}
	if c.multi != nil {
		c.multi.broken = true
	}
}

func (c *conn) incrBy(args [][]byte) { // what redis-py sends for incr
	if string(args[1]) != "1" {
		c.fail(issuer.CodeInvalid, "send LPOP with a count for several IDs: INCRBY takes a key and 1")
		return
	}
	c.issue("INCR", args[:1])
}

// hello answers HELLO [version [AUTH user token] [SETNAME name]].
func (c *conn) hello(args [][]byte) {
	resp3 := c.resp3
	if len(args) > 0 {
		if resp3 = string(args[0]) == "3"; !resp3 && string(args[0]) != "2" {
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
			args = args[2:]
		default:
			c.fail(issuer.CodeInvalid,
				"give HELLO a version, AUTH with user and token, or SETNAME with a name: it takes nothing else")
			return
		}
	}
	c.resp3 = resp3
	c.setIntegers()
	protocol := int64(2)
	if resp3 {
		protocol = 3
	}
	out := appendMap(c.work.out, resp3, 7)
	out = appendBulk(appendBulk(out, "server"), "shardid")
	out = appendBulk(appendBulk(out, "version"), c.server.opts.Version)
	out = appendInteger(appendBulk(out, "proto"), protocol)
	out = appendInteger(appendBulk(out, "id"), c.id)
	out = appendBulk(appendBulk(out, "mode"), "standalone")
	out = appendBulk(appendBulk(out, "role"), "master")
	c.work.out = appendArray(appendBulk(out, "modules"), 0)
}

// auth answers AUTH token and AUTH user token; the user is not looked at.
func (c *conn) auth(args [][]byte) {
	if c.authenticate(args[len(args)-1]) {
		c.simple("OK")
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
		c.simple("PONG")
		return
	}
	c.work.out = appendBulk(c.work.out, args[0])
}

func (c *conn) selectDB(args [][]byte) {
	if string(args[0]) != "0" {
		c.fail(issuer.CodeInvalid, "send SELECT 0: there is one database")
		return
	}
	c.simple("OK")
}

func (c *conn) reset([][]byte) {
	c.setState(http.StateIdle) // while there is a token
	c.endTransaction()
	c.resp3, c.token = false, nil
	c.setIntegers()
	c.simple("RESET")
}

func (c *conn) leave([][]byte) {
	c.simple("OK")
	c.quit = true
}

// client answers what clients say of themselves when they connect. A client may cache, but nothing
// is ever invalidated: only GET of a sequence is read twice, and docs/api.md says not to cache it.
func (c *conn) client(args [][]byte) {
	switch option := string(upper(args[0])); {
	case option == "SETINFO" && len(args) == 3:
		if string(upper(args[1])) == "LIB-NAME" {
			c.library = string(args[2][:min(len(args[2]), 128)]) // a client that is waited for holds little
			c.setIntegers()
		}
		c.simple("OK")
	case option == "ID":
		c.work.out = appendInteger(c.work.out, c.id)
	case slices.Contains([]string{"SETNAME", "TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH"}, option):
		c.simple("OK")
	default:
		c.fail(issuer.CodeNoRoute, "use CLIENT SETNAME, SETINFO, ID, TRACKING, CACHING, NO-EVICT or NO-TOUCH: "+
			"there are no others here")
	}
}

// info answers INFO with what clients and exporters look at, whatever the section.
func (c *conn) info([][]byte) {
	c.work.out = appendBulk(c.work.out, "# Server\r\nserver_name:shardid\r\nshardid_version:"+c.server.opts.Version+
		// The version of Redis from which the commands that are here were taken.
		"\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\n# Persistence\r\nloading:0\r\n"+
		"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n")
}

// commandInfo answers COMMAND, which redis-cli asks for its help: it says how many there are, and nothing of any.
func (c *conn) commandInfo(args [][]byte) {
	if len(args) == 1 && string(upper(args[0])) == "COUNT" {
		c.work.out = appendInteger(c.work.out, int64(len(c.server.commands)))
		return
	}
	c.work.out = appendArray(c.work.out, 0)
}
