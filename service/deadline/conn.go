package deadline

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection whose deadlines are noted and swept.
type conn struct {
	net.Conn
	listener    *Listener
	read, write side
	handling    atomic.Bool // a handler of net/http runs
}

func newConn(inner net.Conn, l *Listener) *conn {
	c := &conn{Conn: inner, listener: l}
	c.read.open(inner.SetReadDeadline, l.limits.Read)
	c.write.open(inner.SetWriteDeadline, l.limits.Write)
	return c
}

// ConnState is for http.Server.ConnState, and tells when a handler runs.
func ConnState(c net.Conn, state http.ConnState) {
	if c, ok := c.(*conn); ok {
		c.handling.Store(state == http.StateActive)
	}
}

// NetConn is the connection that was accepted.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	watch := len(b) == 1 && c.handling.Load()
	if err := c.read.begin(watch); err != nil {
		return 0, err
	}
	defer c.read.end(watch)
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.write.begin(false); err != nil {
		return 0, err
	}
	defer c.write.end(false)
	return c.Conn.Write(b)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.read.move(t, c.listener.began) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.write.move(t, c.listener.began) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite ends what is sent and lets the client read it; net/http does so
// before it closes on a client that is still sending.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.forget(c)
	err := c.Conn.Close()
	c.read.close()
	return err
}

func (c *conn) sweep(now time.Time) {
	c.read.sweep(now)
	c.write.sweep(now)
}

// side is one of the two directions of a connection. Safe for concurrent use.
type side struct {
	apply func(time.Time) error // the deadline of the connection itself
	limit time.Duration         // of one call; 0 for none

	mu      sync.Mutex
	woken   sync.Cond
	at      time.Time // the deadline as noted; zero is none
	expired bool      // at has passed
	applied bool      // the connection itself has a deadline, one that has passed
	busy    int       // calls of the connection under way
	watches int       // those of them that watch the client while a handler runs
	calls   int       // calls since the connection was opened
	seen    int       // calls when a sweep last looked
	since   time.Time // when calls was first what it is, as sweeps saw it
	patient bool      // a call waits for the next sweep
	closed  bool      // the connection is; no sweep will find it
}

func (s *side) open(apply func(time.Time) error, limit time.Duration) {
	s.apply, s.limit = apply, limit
	s.woken.L = &s.mu
}

// begin is before a call of the connection itself. A patient one waits until the
// deadline has passed or a sweep finds it.
func (s *side) begin(patient bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if patient && !s.expired && !s.closed {
		s.patient = true
		for s.patient {
			s.woken.Wait()
		}
	}
	if s.expired {
		return os.ErrDeadlineExceeded
	}
	if patient {
		s.watches++
	}
	s.busy++
	s.calls++
	return nil
}

func (s *side) end(patient bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if patient {
		s.watches--
	}
	s.busy--
}

// move notes a deadline. One before began counts at once.
func (s *side) move(t, began time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.expired = t, !t.IsZero() && t.Before(began)
	if s.expired {
		return s.expire()
	}
	if s.applied {
		s.applied = false
		return s.apply(time.Time{})
	}
	return nil
}

// expire ends the calls under way. Callers hold mu and have set expired.
func (s *side) expire() error {
	s.wake()
	if s.busy == 0 || s.applied {
		return nil
	}
	s.applied = true
	return s.apply(longAgo())
}

// longAgo is a deadline that has passed, whatever the clock says.
func longAgo() time.Time { return time.Unix(1, 0) }

func (s *side) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && s.at.Before(now) || s.isStuck(now) {
		s.expired = true
		_ = s.expire() // fails on a closed connection, whose calls have ended
	}
	s.wake()
}

// isStuck says whether one call has lasted longer than the limit. What watches the
// client may: the handler has limits of its own. Callers hold mu.
func (s *side) isStuck(now time.Time) bool {
	if s.busy == s.watches || s.calls != s.seen {
		s.seen, s.since = s.calls, now
		return false
	}
	return s.limit > 0 && now.Sub(s.since) >= s.limit
}

// close lets a patient call go on to learn that the connection is closed.
func (s *side) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wake()
}

// wake lets a patient call go on. Callers hold mu.
func (s *side) wake() {
	if s.patient {
		s.patient = false
		s.woken.Broadcast()
	}
}
