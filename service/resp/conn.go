package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"shardid/service/access"
	"shardid/service/issuer"
)

const (
	// flushAt is how much of a pipeline's answers, or of a large one, is held before it is
	// sent, in bytes. A buffer that grew beyond twice of it is not kept.
	flushAt = 8 << 10
	// piece is how many IDs are made text between two looks at that.
	piece = issuer.Large
)

// conn is one client.
type conn struct {
	net.Conn
	server *Server
	id     int64
	in     reader
	work   *scratch // nil while the client is waited for

	since time.Time // it is connected

	// What the client has said.
	resp3                         bool
	name, library, libraryVersion string             // of CLIENT SETNAME and SETINFO
	integers                      integers           // by these
	token                         *access.Credential // of AUTH
	multi                         *transaction       // of MULTI; nil before, and while EXEC is answered
	executing                     bool               // EXEC is answered

	errs int // commands that were answered with an error of the public table
	quit bool
	turn func() // ends that of the answer under way; nil unless it is one of many IDs
}

func (c *conn) serve() {
	if shaken, ok := c.Conn.(interface{ HandshakeContext(context.Context) error }); ok { // TLS
		if shaken.HandshakeContext(c.server.base) != nil {
			return
		}
	}
	for !c.quit {
		command, err := c.in.next()
		if err == nil {
			c.setState(http.StateActive)
			c.acquire()
			c.handle(command)
			if err = c.pass(); err == nil {
				continue
			}
		} else if broken, ok := errors.AsType[protocolError](err); ok {
			c.acquire()
			c.settle()
			c.work.out = appendError(c.work.out, "ERR "+broken.Error())
			c.quit = true
		}
		if err != nil && !c.quit {
			return
		}
	}
	_ = c.flush() // the connection ends either way
}

// beforeRead sends what is held before the client is waited for.
func (c *conn) beforeRead() error {
	err := c.flush()
	c.setState(http.StateIdle)
	return err
}

// setState tells what the connection does, once its client has shown the token that it needs.
func (c *conn) setState(state http.ConnState) {
	if o := &c.server.opts; o.ConnState != nil && (c.token != nil || !o.RequireToken) {
		o.ConnState(c.Conn, state)
	}
}

// pass sends what is held after a command, once it is enough.
func (c *conn) pass() error {
	if len(c.work.gathered.commands) == 0 && len(c.work.out) >= flushAt {
		return c.flush()
	}
	return nil // answers to gathered commands are not held yet
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
	c.settle()
	var err error
	if len(c.work.out) > 0 {
		err = c.send()
	}
	c.release()
	return err
}

// send sends what is held.
func (c *conn) send() error {
	_, err := c.Write(c.work.out)
	if err != nil {
		c.quit = true
	}
	c.work.out, c.work.ended = c.work.out[:0], 0
	return err
}

// endTurn sends what is held of a large batch and ends its turn.
func (c *conn) endTurn() {
	if c.turn == nil {
		return
	}
	if c.work != nil {
		_ = c.send() // ends the connection when it fails
	}
	c.turn()
	c.turn = nil
}

func (c *conn) release() {
	if c.work == nil {
		return
	}
	c.work.out, c.work.ended = c.work.out[:0], 0
	c.work.gathered.forget()
	if cap(c.work.out) <= 2*flushAt {
		c.server.scratch.Put(c.work)
	}
	c.work = nil
}

// inPieces appends the bulk strings of many IDs or texts, and sends them in pieces.
func inPieces[T any](c *conn, all []T, appendSome func(out []byte, some []T) []byte) {
	for len(all) > 0 && !c.quit {
		n := min(len(all), piece)
		c.work.out = appendSome(c.work.out, all[:n])
		if all = all[n:]; len(all) > 0 && len(c.work.out) >= flushAt {
			_ = c.send() // ends the connection when it fails
		}
	}
}

// fail answers with an error of the public table. Its first word is one that clients do
// not interpret.
func (c *conn) fail(code int, text string) { c.failAs("SHARDID", code, text) }

// failAs is fail with a first word that clients know.
func (c *conn) failAs(word string, code int, text string) {
	c.server.answers.Add(code)
	c.errs++
	if c.executing {
		text += " (MULTI undoes nothing: the other commands are carried out, and IDs that you do not read are left out)"
	}
	c.work.out = appendError(c.work.out, fmt.Sprintf("%s %d %s", word, code, text))
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
