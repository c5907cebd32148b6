package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"shardid/service/access"
)

// flushAt is how much of a pipeline's answers is held before it is sent, in bytes.
const flushAt = 8 << 10

// conn is one client.
type conn struct {
	net.Conn
	server *Server
	id     int64
	in     reader
	work   *scratch // nil while the client is waited for

	resp3    bool
	library  string             // of CLIENT SETINFO LIB-NAME
	integers integers           // by these
	token    *access.Credential // of AUTH
	multi    *transaction       // of MULTI; nil before, and while EXEC is answered
	quit     bool               // the connection ends after the answers that are held
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
			c.answer(command)
		} else if broken, ok := errors.AsType[protocolError](err); ok {
			c.acquire()
			c.flushSequences()
			if bytes.Contains(c.in.buf[c.in.start:c.in.end], []byte(" HTTP/1.")) {
				c.work.out = append(c.work.out, refusalOfHTTP...)
			}
			c.work.out = appendError(c.work.out, "ERR "+broken.Error())
			c.quit = true
		} else {
			return
		}
	}
	_ = c.flush() // the connection ends either way
}

// answer answers one command, and sends what is held once that is enough.
func (c *conn) answer(command [][]byte) {
	c.setState(http.StateActive)
	c.acquire()
	c.handle(command)
	if len(c.work.out) >= flushAt {
		_ = c.send() // an error ends the connection
	}
}

// beforeRead sends what is held before the client is waited for.
func (c *conn) beforeRead() error {
	err := c.flush()
	if c.in.end > 0 {
		c.setState(http.StateNew) // the rest of a command is waited for
	} else {
		c.setState(http.StateIdle)
	}
	return err
}

// setState tells what the connection does, once its client has shown the token that it needs.
func (c *conn) setState(state http.ConnState) {
	if o := &c.server.opts; o.ConnState != nil && (c.token != nil || !o.RequireToken) {
		o.ConnState(c.Conn, state)
	}
}

func (c *conn) acquire() {
	if c.work == nil {
		c.work, _ = c.server.scratch.Get().(*scratch)
	}
}

// flush sends what is held and gives the buffers back: a client that is waited for holds none.
func (c *conn) flush() error {
	if c.work == nil {
		return nil
	}
	c.flushSequences()
	err := c.send()
	c.release()
	return err
}

// send sends what is held. The connection ends when it fails.
func (c *conn) send() (err error) {
	if len(c.work.out) > 0 {
		_, err = c.Write(c.work.out)
		c.quit = c.quit || err != nil
	}
	c.work.out, c.work.ended = c.work.out[:0], 0
	return err
}

func (c *conn) release() {
	if c.work != nil {
		c.work.out, c.work.ended = c.work.out[:0], 0
		c.work.gathered.forget()
		c.server.scratch.Put(c.work)
		c.work = nil
	}
}

// began is when a command for IDs began, since the server's begun: of a pipeline the clock is read once a command,
// at the end of the one before.
func (c *conn) began() time.Duration {
	if c.work.ended == 0 {
		return time.Since(c.server.begun) // half of the cost of time.Now
	}
	return c.work.ended
}

// fail answers with an error of the public table. Its first word is one that clients do not interpret.
func (c *conn) fail(code int, text string) { c.failAs("SHARDID", code, text) }

// failAs is fail with a first word that clients know.
func (c *conn) failAs(word string, code int, text string) {
	c.work.out = appendError(c.work.out, fmt.Sprintf("%s %d %s", word, code, text))
}

func (c *conn) simple(text string) { c.work.out = appendSimple(c.work.out, text) }

// upper makes a name upper case where it is.
func upper(name []byte) []byte {
	for i, c := range name {
		if 'a' <= c && c <= 'z' {
			name[i] = c - 'a' + 'A'
		}
	}
	return name
}
