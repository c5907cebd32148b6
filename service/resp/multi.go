package resp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
)

// What a client may queue after MULTI. A command that is the same as the one before it takes
// no bytes.
const (
	maxQueued      = 10_000   // commands
	maxQueuedBytes = 16 << 10 // what all connections may hold without asking for anything
)

// transaction is what a client has queued since MULTI. Like Redis it isolates nothing: every
// command issues on its own, and none is undone when another one fails.
type transaction struct {
	packed []byte // of each command: how often, how many words, and of each its length and bytes
	last   int    // where the last command begins
	count  int
	broken bool // a command was refused: EXEC will be
}

// add queues a command, unless that would be too much.
func (t *transaction) add(words [][]byte) bool {
	if t.count == maxQueued {
		return false
	}
	before := len(t.packed)
	t.packed = append(binary.BigEndian.AppendUint16(t.packed, 1), byte(len(words)))
	for _, word := range words {
		t.packed = binary.BigEndian.AppendUint16(t.packed, uint16(len(word)))
		t.packed = append(t.packed, word...)
	}
	t.count++
	if times := t.packed[t.last:]; t.count > 1 && bytes.Equal(times[2:before-t.last], t.packed[before+2:]) {
		binary.BigEndian.PutUint16(times, binary.BigEndian.Uint16(times)+1)
		t.packed = t.packed[:before]
		return true
	}
	t.last = before
	return len(t.packed) <= maxQueuedBytes
}

func (c *conn) begin([][]byte) {
	if c.multi != nil {
		c.work.out = appendError(c.work.out, "ERR MULTI calls can not be nested")
		return
	}
	c.multi = &transaction{}
	c.work.out = appendSimple(c.work.out, "OK")
}

func (c *conn) discard([][]byte) {
	if c.multi == nil {
		c.work.out = appendError(c.work.out, "ERR DISCARD without MULTI")
		return
	}
	c.multi = nil
	c.work.out = appendSimple(c.work.out, "OK")
}

// queue keeps a command for EXEC. One that is refused, or that follows such a one, is not kept.
func (c *conn) queue(words [][]byte) {
	t := c.multi
	if !t.broken && !t.add(words) {
		*t = transaction{broken: true}
		c.fail(-6, fmt.Sprintf("after MULTI there may be %d commands, and %d bytes of different ones: send fewer, or none of them "+
			"in a transaction (transaction=False in redis-py), or LPOP with a count", maxQueued, maxQueuedBytes))
		return
	}
	c.work.out = appendSimple(c.work.out, "QUEUED")
}

// exec answers what is queued as a pipeline of as many commands is answered.
func (c *conn) exec([][]byte) {
	t := c.multi
	c.multi = nil
	switch {
	case t == nil:
		c.work.out = appendError(c.work.out, "ERR EXEC without MULTI")
		return
	case t.broken:
		c.work.out = appendError(c.work.out, "EXECABORT Transaction discarded because of previous errors: nothing was issued")
		return
	}
	c.work.out = appendArray(c.work.out, t.count)
	c.executing = true
	for rest := t.packed; len(rest) > 0; {
		times, n := binary.BigEndian.Uint16(rest), rest[2]
		words := c.in.args[:0] // EXEC needs its own no more
		rest = rest[3:]
		for range n {
			end := 2 + binary.BigEndian.Uint16(rest)
			words = append(words, rest[2:end:end])
			rest = rest[end:]
		}
		for ; times > 0 && !c.quit; times-- {
			c.setState(http.StateActive)
			c.handle(words)
			_ = c.pass() // ends the connection when it fails
			c.acquire()
		}
	}
	c.settle()
	c.executing = false
}
