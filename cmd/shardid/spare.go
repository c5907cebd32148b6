package main

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// spares is how many connections beyond the bound are served at once: probes, scrapes and
// operators are few, and each has one request.
const spares = 32

// spareListener takes connections beyond the bound. When they are too many, one that has
// sent no request gives way, the oldest first: a crowd that says nothing keeps no probe out.
// Make one with newSpareListener. Safe for concurrent use.
type spareListener struct {
	addr   net.Addr
	taken  chan *spareConn
	closed chan struct{}

	mu    sync.Mutex
	conns []*spareConn // by age
	over  bool
}

func newSpareListener(addr net.Addr) *spareListener {
	return &spareListener{addr: addr, taken: make(chan *spareConn, spares), closed: make(chan struct{})}
}

// take never waits.
func (l *spareListener) take(inner net.Conn) {
	c := &spareConn{Conn: inner, listener: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) == spares {
		i := max(0, slices.IndexFunc(l.conns, func(c *spareConn) bool { return !c.asked }))
		_ = l.conns[i].Conn.Close()
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	select {
	case l.taken <- c:
		l.conns = append(l.conns, c)
	default: // those that gave way have not been accepted yet
		_ = inner.Close()
	}
	if l.over {
		_ = inner.Close()
	}
}

// Accept implements net.Listener.
func (l *spareListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.taken:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *spareListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.over = true
		close(l.closed)
	}
	return nil
}

// Addr implements net.Listener.
func (l *spareListener) Addr() net.Addr { return l.addr }

// spareConn has a place until it is closed.
type spareConn struct {
	net.Conn
	listener *spareListener
	asked    bool // has sent a request; the listener's mu guards it
}

// Close implements net.Conn.
func (c *spareConn) Close() error {
	c.listener.mu.Lock()
	c.listener.conns = slices.DeleteFunc(c.listener.conns, func(x *spareConn) bool { return x == c })
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite is that of boundConn.
func (c *spareConn) CloseWrite() error { return closeWrite(c.Conn) }

// newSpareServer answers one request of each spare connection.
func newSpareServer(cfg Config, h http.Handler, like *http.Server) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: min(cfg.Server.ReadHeaderTimeout, slack),
		ReadTimeout:       slack,
		WriteTimeout:      slack,
		MaxHeaderBytes:    cfg.Server.MaxHeaderBytes,
		ErrorLog:          like.ErrorLog,
		HTTP2:             like.HTTP2,
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := unwrap(c).(*spareConn); ok && state == http.StateActive {
				c.listener.mu.Lock()
				defer c.listener.mu.Unlock()
				c.asked = true
			}
		},
	}
	s.SetKeepAlivesEnabled(false)
	return s
}
