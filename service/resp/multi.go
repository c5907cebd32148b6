package resp

import (
	"fmt"

	"shardid/service/issuer"
)

const (
	// maxQueued is how many bytes of commands a client may queue after MULTI, which it can keep without asking for
	// anything.
	maxQueued = 128 << 10
	// allQueued is how many all of them may.
	allQueued = 32 << 20
)

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
	c.endTransaction()
	c.simple("OK")
}

// endTransaction forgets what is queued.
func (c *conn) endTransaction() {
	if c.multi != nil {
		c.server.queued.Add(-int64(len(c.multi.commands)))
		c.multi = nil
	}
}

// queue keeps a command for EXEC. What follows one that was refused is not kept.
func (c *conn) queue(words [][]byte) {
	t, before := c.multi, len(c.multi.commands)
	if !t.broken {
		t.commands = appendArray(t.commands, len(words))
		for _, word := range words {
			t.commands = appendBulk(t.commands, word)
		}
		t.count++
	}
	if all := c.server.queued.Add(int64(len(t.commands) - before)); len(t.commands) > maxQueued || all > allQueued {
		c.endTransaction()
		c.multi = &transaction{broken: true}
		c.fail(issuer.CodeInvalid, fmt.Sprintf("send fewer commands, or none of them in a transaction "+
			"(transaction=False in redis-py), or LPOP with a count: after MULTI there may be %d bytes of them, and %d "+
			"of all clients", maxQueued, allQueued))
		return
	}
	c.simple("QUEUED")
}

// exec answers what is queued as a pipeline of the same commands is answered.
func (c *conn) exec([][]byte) {
	t := c.multi
	c.endTransaction()
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
