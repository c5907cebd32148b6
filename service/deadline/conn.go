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
	if len(b) == 1 && c.handling.Load() {
		return c.watch(b)
	}
	if err := c.read.begin(); err != nil {
		return 0, err
	}
	defer c.read.end()
	return c.Conn.Read(b)
}

// watch is Read while a handler runs.
func (c *conn) watch(b []byte) (int, error) {
	if err := c.read.beginWatch(); err != nil {
		return 0, err
	}
	defer c.read.endWatch()
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.write.begin(); err != nil {
		return 0, err
	}
	defer c.write.end()
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

// side is one of the two directions of a connection. A call that is no watch takes no lock:
// it counts itself and then looks whether the deadline has passed, and what lets it pass does
// so in the other order, so that one of the two sees the other. Safe for concurrent use.
type side struct {
	apply func(time.Time) error // the deadline of the connection itself
	limit time.Duration         // of one call; 0 for none

	begun, ended atomic.Int64 // calls of the connection since it was opened
	expired      atomic.Bool  // at has passed; written with mu held

	mu      sync.Mutex
	woken   sync.Cond
	at      time.Time // the deadline as noted; zero is none
	applied bool      // the connection itself has a deadline, one that has passed
	watches int64     // calls under way that watch the client while a handler runs
	seen    int64     // calls begun when a sweep last looked
	since   time.Time // when begun was first what it is, as sweeps saw it
	patient bool      // a call waits for the next sweep
	closed  bool      // the connection is; no sweep will find it
}

func (s *side) open(apply func(time.Time) error, limit time.Duration) {
	s.apply, s.limit = apply, limit
	s.woken.L = &s.mu
}

// begin is before a call of the connection itself; after an error there is none.
func (s *side) begin() error {
	s.begun.Add(1)
	if s.expired.Load() {
		s.ended.Add(1)
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (s *side) end() { s.ended.Add(1) }

// beginWatch is begin for a call that watches: it waits until the deadline has passed or a
// sweep finds it.
func (s *side) beginWatch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patient = !s.expired.Load() && !s.closed
	for s.patient {
		s.woken.Wait()
	}
	err := s.begin()
	if err == nil {
		s.watches++
	}
	return err
}

func (s *side) endWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches--
	s.end()
}

// move notes a deadline. One before began counts at once.
func (s *side) move(t, began time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = t
	if !t.IsZero() && t.Before(began) {
		return s.expire()
	}
	if s.expired.Load() {
		s.expired.Store(false)
	}
	if s.applied {
		s.applied = false
		return s.apply(time.Time{})
	}
	return nil
}

// expire lets the deadline pass and ends the calls under way. Callers hold mu.
func (s *side) expire() error {
	s.expired.Store(true)
	s.wake()
	if s.applied || s.ended.Load() == s.begun.Load() {
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
		_ = s.expire() // fails on a closed connection, whose calls have ended
	}
	s.wake()
}

// isStuck says whether one call has lasted longer than the limit. What watches the
// client may: the handler has limits of its own. Callers hold mu.
func (s *side) isStuck(now time.Time) bool {
	ended := s.ended.Load() // first: what ends meanwhile is still under way here
	if begun := s.begun.Load(); begun-ended == s.watches || begun != s.seen {
		s.seen, s.since = begun, now
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
