// Package framing keeps a store that answers nonsense from ending the process. The client
// libraries allocate what a length announces before it arrives, and some of their goroutines
// panic when an answer lacks a part. So each connection to a store is read through one of this
// package, which follows the answers as they pass and fails the read at the first that none of
// our calls can get. What an answer says is for the libraries and the stores to judge.
//
// The connections lie above TLS; for MySQL see MySQL.
package framing

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
)

// RefusedError is the error of a read, and of all after it, on a connection whose server sent
// what no answer to shardid is. The connection is closed by then.
type RefusedError struct {
	Server string // what should listen there, such as Redis
	Addr   string // where it listens
	Why    string // what it sent, and what is the most
}

func (e *RefusedError) Error() string { return e.Server + " at " + e.Addr + " " + e.Why }

// refusal is the Why of a RefusedError.
type refusal string

func refuse(why string, args ...any) refusal { return refusal(fmt.Sprintf(why, args...)) }

// tooMuch is the usual refusal.
func tooMuch(n int, unit string, most int) refusal {
	return refuse("announced %d %s; no answer to shardid has more than %d", n, unit, most)
}

// A follower is shown all bytes that arrive on a connection, in pieces of any size. Its calls
// do not overlap.
type follower interface {
	// asked says that something was sent since the piece before.
	asked()
	// follow refuses a piece with what no answer has; "" refuses nothing.
	follow(piece []byte) refusal
}

// Conn refuses what its follower does. One goroutine may read while others write.
type Conn struct {
	net.Conn
	server   string
	follower follower
	sent     atomic.Bool // since the last read
	refused  atomic.Pointer[RefusedError]
}

// Read fails with a *RefusedError, or as the connection below does.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.Refused(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if c.sent.Load() {
		c.sent.Store(false)
		c.follower.asked()
	}
	if why := c.follower.follow(p[:n]); why != "" {
		return 0, c.refuse(why)
	}
	return n, err
}

// Write notes that an answer may follow.
func (c *Conn) Write(p []byte) (int, error) {
	c.sent.Store(true)
	return c.Conn.Write(p)
}

// Close closes the connection. That a refusal has done so before is no error.
func (c *Conn) Close() error {
	if err := c.Conn.Close(); err != nil && c.Refused() == nil {
		return err
	}
	return nil
}

// Refused is why no more is read; nil when nothing was refused.
func (c *Conn) Refused() error {
	if err := c.refused.Load(); err != nil {
		return err
	}
	return nil
}

func (c *Conn) refuse(why refusal) error {
	c.refused.Store(&RefusedError{c.server, c.RemoteAddr().String(), string(why)})
	_ = c.Close() // the refusal is the error to tell
	return c.Refused()
}

// socketConn shows the socket of the connection below it: the libraries look there whether an
// idle connection is still alive.
type socketConn struct {
	net.Conn
	socket syscall.Conn
}

func (c socketConn) SyscallConn() (syscall.RawConn, error) { return c.socket.SyscallConn() }

// withSocket gives c the socket of the connection below, if that shows it: TLS does not.
func withSocket(c, below net.Conn) net.Conn {
	if socket, ok := below.(syscall.Conn); ok {
		return socketConn{c, socket}
	}
	return c
}
