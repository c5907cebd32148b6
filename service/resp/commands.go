package resp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"shardid/service/issuer"
)

// command is what answers a command, and what COMMAND says of it.
type command struct {
	name, group, summary string
	usage                string // its arguments, the optional ones in brackets
	least, most          int    // how many it takes
	keys                 bool   // its arguments begin with a key
	issues               bool   // IDs; it checks its arguments itself, so that each refusal is told of
	atOnce               bool   // also after MULTI
	run                  func(c *conn, args [][]byte)
}

func (k *command) takes(args int) bool { return k.least <= args && args <= k.most }

// newCommands are all commands, by name.
func newCommands() map[string]*command {
	issue := func(name string) func(*conn, [][]byte) {
		return func(c *conn, args [][]byte) { c.issue(name, args) }
	}
	ok := func(c *conn, _ [][]byte) { c.work.out = appendSimple(c.work.out, "OK") }
	all := map[string]*command{}
	for _, k := range []command{
		{name: "INCR", group: "string", usage: "key", least: 1, most: 1, issues: true, run: issue("INCR"), summary: "One ID, an integer"},
		{name: "INCRBY", group: "string", usage: "key increment", least: 2, most: 2, issues: true, run: (*conn).incrBy, summary: "One ID for 1, an integer; of a sequence so many numbers, and the last of them"},
		{name: "GET", group: "string", usage: "key", least: 1, most: 1, keys: true, run: (*conn).get, summary: "How far a sequence has come, a string"},
		{name: "LPOP", group: "list", usage: "key [count]", least: 1, most: 2, issues: true, run: issue("LPOP"), summary: "One ID, a string, or exactly so many"},
		{name: "RPOP", group: "list", usage: "key [count]", least: 1, most: 2, issues: true, run: issue("RPOP"), summary: "One ID, a string, or exactly so many"},
		{name: "MULTI", group: "transactions", atOnce: true, run: (*conn).begin, summary: "Queue the commands that follow"},
		{name: "EXEC", group: "transactions", atOnce: true, run: (*conn).exec, summary: "Answer what was queued; what fails undoes nothing"},
		{name: "DISCARD", group: "transactions", atOnce: true, run: (*conn).discard, summary: "Forget what was queued"},
		{name: "WATCH", group: "transactions", usage: "key [key ...]", least: 1, most: maxArgs, keys: true, atOnce: true, run: ok, summary: "OK: no key changes"},
		{name: "UNWATCH", group: "transactions", run: ok, summary: "OK: no key changes"},
		{name: "PING", group: "connection", usage: "[message]", most: 1, run: (*conn).ping, summary: "PONG, or the message"},
		{name: "ECHO", group: "connection", usage: "message", least: 1, most: 1, run: (*conn).ping, summary: "The message"},
		{name: "HELLO", group: "connection", usage: "[protover] [AUTH user token] [SETNAME name]", most: maxArgs, run: (*conn).hello, summary: "Choose RESP2 or RESP3"},
		{name: "AUTH", group: "connection", usage: "[username] token", least: 1, most: 2, run: (*conn).auth, summary: "Say the token; the user is not looked at"},
		{name: "SELECT", group: "connection", usage: "0", least: 1, most: 1, run: (*conn).selectDB, summary: "OK: there is one database"},
		{name: "CLIENT", group: "connection", usage: "subcommand [argument ...]", least: 1, most: maxArgs, run: (*conn).client, summary: "This connection: " + clientHas},
		{name: "RESET", group: "connection", atOnce: true, run: (*conn).reset, summary: "Forget protocol, name, token and MULTI"},
		{name: "QUIT", group: "connection", atOnce: true, run: (*conn).leave, summary: "Close the connection"},
		{name: "COMMAND", group: "server", usage: "[COUNT | LIST | INFO [name ...] | DOCS [name ...]]", most: maxArgs, run: (*conn).commandInfo, summary: "The commands that are here"},
		{name: "INFO", group: "server", usage: "[section ...]", most: maxArgs, run: (*conn).info, summary: "What is known of the server; always all of it"},
		{name: "TIME", group: "server", run: (*conn).time, summary: "The clock: seconds, and microseconds of the second"},
	} {
		k.keys = k.keys || k.issues
		all[k.name] = &k
	}
	return all
}

// handle answers one command, or queues it after MULTI. Its name becomes upper case.
func (c *conn) handle(words [][]byte) {
	name := upper(words[0])
	if c.multi == nil { // those that are asked for most need no look-up
		if c.gather(name, words[1:]) {
			return
		}
		c.settle()
		switch string(name) {
		case "INCR":
			c.issue("INCR", words[1:])
			return
		case "LPOP":
			c.issue("LPOP", words[1:])
			return
		}
	}
	c.lookUp(name, words)
}

func (c *conn) lookUp(name []byte, words [][]byte) {
	args, errs := words[1:], c.errs
	switch known := c.server.commands[string(name)]; {
	case known == nil:
		c.fail(issuer.CodeNoRoute, absent(name))
	case !known.takes(len(args)) && (c.multi != nil || !known.issues):
		c.fail(-6, strings.TrimSpace(fmt.Sprintf("wrong number of arguments, the command is: %s %s", known.name, known.usage)))
	case c.multi != nil && !known.atOnce:
		c.queue(words)
		return
	default:
		known.run(c, args)
		if !known.issues && c.errs == errs {
			c.server.served.Add(1)
		}
		return
	}
	if c.multi != nil {
		c.multi.broken = true
	}
}

// absent says what to do in place of a command that is not here. rueidis asks for CLUSTER first,
// and goes on without when the error has this word.
func absent(name []byte) string {
	switch string(name) {
	case "CLUSTER", "SENTINEL", "READONLY", "ASKING":
		return fmt.Sprintf("there is no %s: shardid keeps no data here, and each of its replicas answers every key. "+
			"Use a client for a single server, with the address of HAProxy before the replicas or of one of them: see docs/api.md", name)
	}
	return fmt.Sprintf("there is no command %s: INCR, LPOP and RPOP issue IDs", quote(name))
}

func (c *conn) incrBy(args [][]byte) { // what redis-py sends for incr
	if len(args) != 2 {
		c.fail(-6, "INCRBY takes a key and an increment: 1, and of a sequence how many numbers")
		return
	}
	if string(args[1]) != "1" {
		c.fail(-6, "INCRBY takes a key and 1: for more IDs send LPOP with a count")
		return
	}
	c.issue("INCR", args[:1])
}

// redisVersion is the version of Redis from which the commands that are here were taken; clients
// and exporters look at it.
const redisVersion = "7.2.0"

// info answers INFO with what is true of shardid, and all of it, whatever the section. What
// tells of other clients needs a token where one is required.
func (c *conn) info([][]byte) {
	s := c.server
	up := int64(time.Since(s.begun).Seconds())
	text := fmt.Sprintf("# Server\r\nserver_name:shardid\r\nshardid_version:%s\r\nredis_version:%s\r\nredis_mode:standalone\r\n"+
		"uptime_in_seconds:%d\r\nuptime_in_days:%d\r\n", s.opts.Version, redisVersion, up, up/(24*60*60))
	if !s.opts.RequireToken || c.token != nil {
		answered, failed := s.answers.Counts()
		s.mu.Lock()
		clients := len(s.conns)
		s.mu.Unlock()
		text += fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\n# Stats\r\ntotal_connections_received:%d\r\n"+
			"total_commands_processed:%d\r\ntotal_error_replies:%d\r\n", clients, s.nextID.Load(),
			answered+s.served.Load(), failed)
	}
	text += "# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n# Cluster\r\ncluster_enabled:0\r\n"
	c.work.out = appendBulk(c.work.out, text)
}

func (c *conn) time([][]byte) {
	now := time.Now()
	c.work.out = appendTexts(c.work.out, strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond()/1000))
}

// commandInfo answers COMMAND [COUNT|LIST|INFO [name …]|DOCS [name …]], from which redis-cli has its help.
func (c *conn) commandInfo(args [][]byte) {
	option := "INFO"
	if len(args) > 0 {
		option = string(upper(args[0]))
		args = args[1:]
	}
	names := make([]string, 0, len(c.server.commands))
	for _, name := range args {
		names = append(names, string(upper(name)))
	}
	if len(names) == 0 {
		for name := range c.server.commands {
			names = append(names, name)
		}
	}
	out := &c.work.out
	switch option {
	case "COUNT":
		*out = appendInteger(*out, int64(len(c.server.commands)))
	case "LIST":
		*out = appendTexts(*out, names...)
	case "INFO":
		*out = appendArray(*out, len(names))
		for _, name := range names {
			*out = c.server.commands[name].appendInfo(*out, c.resp3)
		}
	case "DOCS":
		known := names[:0]
		for _, name := range names {
			if c.server.commands[name] != nil {
				known = append(known, name)
			}
		}
		*out = appendMap(*out, c.resp3, len(known))
		for _, name := range known {
			*out = c.server.commands[name].appendDocs(*out, c.resp3)
		}
	default:
		c.fail(-6, "COMMAND has COUNT, LIST, INFO and DOCS here")
	}
}

// appendInfo writes the ten fields that Redis 7 has; k is nil for a command that is not here.
func (k *command) appendInfo(out []byte, resp3 bool) []byte {
	if k == nil {
		return appendNull(out, resp3)
	}
	arity, first, flags := k.least+1, 0, []string{"fast"}
	if k.most > k.least {
		arity = -arity
	}
	if k.keys {
		first = 1
	}
	if k.issues {
		flags = []string{"write", "fast"}
	}
	last := first
	if k.keys && k.most == maxArgs {
		last = -1
	}
	out = appendBulk(appendArray(out, 10), strings.ToLower(k.name))
	out = appendFlags(appendInteger(out, int64(arity)), flags...)
	for _, n := range []int{first, last, min(first, 1)} {
		out = appendInteger(out, int64(n))
	}
	for range 4 { // categories, tips, specifications of keys, subcommands
		out = appendArray(out, 0)
	}
	return out
}

// appendFlags writes what redis-cli takes for flags: simple strings.
func appendFlags(out []byte, flags ...string) []byte {
	out = appendArray(out, len(flags))
	for _, flag := range flags {
		out = appendSimple(out, flag)
	}
	return out
}

func (k *command) appendDocs(out []byte, resp3 bool) []byte {
	out = appendMap(appendBulk(out, strings.ToLower(k.name)), resp3, 3)
	out = appendBulk(appendBulk(out, "summary"), k.summary)
	out = appendBulk(appendBulk(out, "group"), k.group)
	args := arguments(k.usage)
	out = appendArray(appendBulk(out, "arguments"), len(args))
	for _, name := range args {
		inner, optional := strings.CutPrefix(name, "[")
		fields := 2
		if optional {
			fields, inner = 3, strings.TrimSuffix(inner, "]")
		}
		out = appendMap(out, resp3, fields)
		out = appendBulk(appendBulk(out, "name"), inner)
		out = appendBulk(appendBulk(out, "type"), "string")
		if optional {
			out = appendFlags(appendBulk(out, "flags"), "optional")
		}
	}
	return out
}

// arguments cuts a usage between its arguments; one in brackets is one.
func arguments(usage string) (args []string) {
	depth := 0
	for _, word := range strings.Fields(usage) {
		if depth > 0 {
			args[len(args)-1] += " " + word
		} else {
			args = append(args, word)
		}
		depth += strings.Count(word, "[") - strings.Count(word, "]")
	}
	return args
}
