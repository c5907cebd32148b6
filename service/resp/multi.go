package resp

import (
	"fmt"

	"shardid/service/issuer"
)

// maxQueued is how many bytes of commands a client may queue after MULTI: all connections may hold as many without
// asking for anything.
const maxQueued = 128 << 10

// transaction is what a client has queued since MULTI. Like Redis it isolates nothing: every
// command issues on its own, and none is undone when another one fails.
type transaction struct {
	commands []byte // as clients send them
	count    int
	broken   bool // a command was refused: EXEC will be
}

func (c *conn) begin([][]byte) {
	if c.multi != nil {
		c.work.out = appendError(c.work.out, "ERR MULTI calls can not be nested")
		return
	}
	c.multi = &transaction{}
	c.simple("OK")
}

func (c *conn) discard([][]byte) {
	if c.multi == nil {
		c.work.out = appendError(c.work.out, "ERR DISCARD without MULTI")
		return
	}
	c.multi = nil
	c.simple("OK")
}

// queue keeps a command for EXEC. What follows one that was refused is not kept.
func (c *conn) queue(words [][]byte) {
	t := c.multi
	if !t.broken {
		t.commands = appendArray(t.commands, len(words))
		for _, word := range words {
			t.commands = appendBulk(t.commands, word)
		}
		t.count++
	}
	if len(t.commands) > maxQueued {
		*t = transaction{broken: true}
		c.fail(issuer.CodeInvalid, fmt.Sprintf("send fewer commands, or none of them in a transaction "+
			"(transaction=False in redis-py), or LPOP with a count: after MULTI there may be %d bytes of them",
			maxQueued))
		return
	}
	c.simple("QUEUED")
}

// exec answers what is queued as a pipeline of the same commands is answered.
func (c *conn) exec([][]byte) {
	t := c.multi
	c.multi = nil
	switch {
	case t == nil:
		c.work.out = appendError(c.work.out, "ERR EXEC without MULTI")
		return
	case t.broken:
		c.work.out = appendError(c.work.out,
			"EXECABORT Transaction discarded because of previous errors: nothing was issued")
		return
	}
	c.work.out = appendArray(c.work.out, t.count)
	for rest := t.commands; len(rest) > 0 && !c.quit; {
		words, used, err := parse(rest, c.in.args[:0]) // EXEC needs its own no more
		if err != nil {
			panic(err) // each was read before it was queued
		}
		rest = rest[used:]
		c.answer(words)
	}
	c.flushSequences()
}
