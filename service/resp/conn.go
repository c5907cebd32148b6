package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"shardid/service/access"
	"shardid/service/issuer"
	"shardid/service/unsent"
)

const (
	// flushAt is how much of a pipeline's answers, or of a large one, is held before it is
	// sent, in bytes. A buffer that grew beyond twice of it is not kept.
	flushAt = 16 << 10
	// piece is how many IDs are made text between two looks at that.
	piece = issuer.Large
)

// awaited is what a connection waits for.
type awaited int

const (
	aCommand     awaited = iota // the listener bounds how long
	theRest                     // of a command that has begun: Options.CommandTimeout
	aToken                      // where tokens are required: Options.TokenTimeout
	somethingNew                // a command has come since
)

// conn is one client.
type conn struct {
	net.Conn
	server *Server
	id     int64
	in     reader
	work   *scratch     // nil while the client is waited for
	check  func() error // of the client's certificate; nil for none

	since time.Time // it is connected

	// What the client has said.
	resp3                         bool
	name, library, libraryVersion string             // of CLIENT SETNAME and SETINFO
	integers                      integers           // by these
	token                         *access.Credential // of AUTH
	multi                         *transaction       // of MULTI; nil before, and while EXEC is answered
	executing                     bool               // EXEC is answered

	errs  int     // commands that were answered with an error of the public table
	waits awaited // what the read deadline is for
	quit  bool
	large *unsent.Answer // the answer under way, if it is one of many IDs
}

func (c *conn) serve() {
	if shaken, ok := c.Conn.(interface{ HandshakeContext(context.Context) error }); ok { // TLS
		if c.await(theRest, c.server.opts.CommandTimeout) != nil || shaken.HandshakeContext(c.server.base) != nil {
			return
		}
		c.waits = somethingNew
	}
	for !c.quit {
		command, err := c.in.next()
		if err == nil {
			if c.waits == theRest {
				c.waits = somethingNew
			}
			c.acquire()
			if c.trusted() {
				c.handle(command)
			}
			if err = c.pass(); err == nil {
				continue
			}
		} else if broken, ok := errors.AsType[protocolError](err); ok {
			c.acquire()
			c.settle()
			c.work.out = appendError(c.work.out, "ERR "+broken.Error())
			c.quit = true
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			c.tooLate()
		}
		if err != nil && !c.quit {
			return
		}
	}
	_ = c.flush() // the connection ends either way
}

// beforeRead sends what is held and sets until when what is waited for must come.
func (c *conn) beforeRead(begun bool) error {
	if err := c.flush(); err != nil {
		return err
	}
	o := &c.server.opts
	switch {
	case o.RequireToken && c.token == nil:
		return c.await(aToken, o.TokenTimeout)
	case begun:
		return c.await(theRest, o.CommandTimeout)
	}
	return c.await(aCommand, 0)
}

// await sets the read deadline for what is waited for now, unless it is set. 0: none.
func (c *conn) await(what awaited, limit time.Duration) error {
	if c.waits == what {
		return nil
	}
	c.waits = what
	var at time.Time
	if limit > 0 {
		at = time.Now().Add(limit)
	}
	_ = c.SetReadDeadline(at)     // fails on a closed connection, as the read will
	if c.server.draining.Load() { // whose deadline that may have moved
		return ErrServerClosed
	}
	return nil
}

// tooLate tells the client why the connection ends, unless it was only idle.
func (c *conn) tooLate() {
	if c.server.draining.Load() || c.waits != theRest && c.waits != aToken {
		return
	}
	c.acquire()
	c.quit = true
	if c.waits == aToken {
		c.server.strangers.Add(1)
		c.failAs("NOAUTH", -7, "no valid token came in time: send AUTH with a token first")
		return
	}
	c.work.out = appendError(c.work.out, "ERR the rest of a command did not come in time")
}

// pass sends what is held after a command, once it is enough.
func (c *conn) pass() error {
	switch n := len(c.work.out); {
	case len(c.work.gathered.commands) > 0: // their answers are not held yet
	case n >= flushAt:
		return c.flush()
	case n > unsent.Small/2:
		c.enlarge()
	}
	return nil
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

// send sends what is held. What was held for a client that did not take it is not kept: many
// may have been cut at once.
func (c *conn) send() error {
	held := c.large
	if size := cap(c.work.out); held == nil && size > unsent.Small {
		held = c.server.opts.Unsent.Hold(size, c.cut)
		defer held.Release()
	}
	_, err := c.Write(c.work.out)
	if err != nil {
		c.quit, c.work.out = true, nil
	}
	held.Progress()
	c.work.out, c.work.ended = c.work.out[:0], 0
	return err
}

// cut makes the write under way fail; a closed connection has none.
func (c *conn) cut() { _ = c.SetWriteDeadline(time.Unix(1, 0)) }

func (c *conn) release() {
	if c.work == nil {
		return
	}
	c.work.out, c.work.ended = c.work.out[:0], 0
	c.work.gathered.forget()
	switch size := cap(c.work.out); {
	case size <= unsent.Small:
		c.server.scratch.Put(c.work)
	case size <= 2*flushAt:
		c.server.large.Put(c.work)
	}
	c.work = nil
}

// enlarge trades the buffers for larger ones: small answers keep to small ones, whose unsent
// bytes need not be counted.
func (c *conn) enlarge() {
	if cap(c.work.out) > unsent.Small {
		return
	}
	large, _ := c.server.large.Get().(*scratch)
	large.out, large.ended = append(large.out, c.work.out...), c.work.ended
	c.release()
	c.work = large
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

// trusted says whether the client's certificate still is; otherwise the connection ends.
func (c *conn) trusted() bool {
	if c.check == nil {
		return true
	}
	err := c.check()
	if err != nil {
		c.settle()
		c.fail(-7, err.Error())
		c.quit = true
	}
	return err == nil
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
