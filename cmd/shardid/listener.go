package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardid/service/background"
	"shardid/service/deadline"
)

// defaultConnections is the bound of server.max_connections 0: three quarters of the
// descriptors, the rest is for stores and files, and what fits into 300 MB of memory.
func defaultConnections() int {
	const fit = 16384
	if limit, ok := descriptorLimit(); ok {
		return int(min(limit/4*3, fit))
	}
	return fit
}

// connections bounds how many clients are connected at once, in all and from one address,
// and counts. Safe for concurrent use.
type connections struct {
	most, mostFrom  int // mostFrom 0: no bound
	lines           background.RateLimitedLog
	refused, failed atomic.Int64 // since the start
	strangers       atomic.Int64 // likewise, over HTTP

	mu   sync.Mutex
	open int
	from map[netip.Prefix]int // empty without mostFrom
}

// newConnections takes the configured bounds; 0 is the default of the first and none of the
// second.
func newConnections(most, mostFrom int, log *slog.Logger) *connections {
	if most == 0 {
		most = defaultConnections()
	}
	return &connections{most: most, mostFrom: mostFrom, from: map[netip.Prefix]int{},
		lines: background.RateLimitedLog{Logger: log, Every: time.Minute}}
}

// admit counts a connection, or says which bound it is beyond.
func (c *connections) admit(conn net.Conn) (admitted *boundConn, beyond string) {
	b := &boundConn{Conn: conn, connections: c}
	if c.mostFrom > 0 {
		b.from = client(conn.RemoteAddr())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open >= c.most:
		return nil, "server.max_connections"
	case c.mostFrom > 0 && c.from[b.from] >= c.mostFrom:
		return nil, "server.max_connections_per_address"
	}
	c.open++
	if c.mostFrom > 0 {
		c.from[b.from]++
	}
	return b, ""
}

func (c *connections) forget(b *boundConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.mostFrom == 0 {
		return
	}
	if c.from[b.from]--; c.from[b.from] == 0 {
		delete(c.from, b.from)
	}
}

// count is how many are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// client is the address of a client; one with IPv6 has a network of 64 bits to itself.
func client(addr net.Addr) netip.Prefix {
	at, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := at.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is4() {
		return netip.PrefixFrom(ip, ip.BitLen())
	}
	const network = 64
	return netip.PrefixFrom(ip, network).Masked()
}

// boundListener is a listener whose connections are bounded.
type boundListener struct {
	net.Listener
	*connections
	beyond func(net.Conn) // what becomes of a connection too many; nil: it is closed at once
}

// Accept implements net.Listener.
func (l boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.note(err)
			return nil, err
		}
		admitted, bound := l.admit(conn)
		if admitted != nil {
			return admitted, nil
		}
		if l.beyond != nil {
			l.beyond(conn)
		} else {
			_ = conn.Close() // its client can try another replica
		}
		refused := l.refused.Add(1)
		l.lines.Log(slog.LevelWarn, "too many connections, further ones get no IDs: find the clients that keep them, add replicas, or raise "+bound,
			"max_connections", l.most, "max_connections_per_address", l.mostFrom, "client", conn.RemoteAddr().String(), "refused", refused)
	}
}

// note tells of a connection that could not be accepted; net/http tries again.
func (l boundListener) note(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	failed := l.failed.Add(1)
	l.lines.Log(slog.LevelWarn, "a connection cannot be accepted: if files are too many, raise their limit (ulimit -n, LimitNOFILE) or lower server.max_connections",
		"error", err, "failed", failed, "connections", l.count())
}

// boundConn is counted until it is closed. Where tokens are required, one over HTTP that shows
// none in time is a stranger's and is closed; service/resp does the same for its own.
type boundConn struct {
	net.Conn
	*connections
	from   netip.Prefix
	closed sync.Once

	timer  *time.Timer // nil where none is required
	known  atomic.Bool // a valid token came
	asking atomic.Bool // a request is being answered
	late   atomic.Bool // tokenTimeout has passed
}

// tokenTimeout is how long a connection may be without a valid token where tokens are required.
const tokenTimeout = 10 * time.Second

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.closed.Do(func() {
		c.forget(c)
		if c.timer != nil {
			c.timer.Stop()
		}
	})
	return c.Conn.Close()
}

type connKey struct{}

// meet is for http.Server.ConnContext where tokens are required.
func meet(ctx context.Context, conn net.Conn) context.Context {
	c, _ := unwrap(conn).(*boundConn)
	if c == nil {
		return ctx
	}
	c.timer = time.AfterFunc(tokenTimeout, c.overdue)
	return context.WithValue(ctx, connKey{}, c)
}

// know notes that a request came with a valid token.
func know(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*boundConn); ok && !c.known.Load() {
		c.known.Store(true)
	}
}

// overdue closes a stranger's connection. An answer under way may end, if it takes no longer
// than the same time again.
func (c *boundConn) overdue() {
	if !c.late.Swap(true) && c.asking.Load() {
		c.timer.Reset(tokenTimeout)
		return
	}
	c.turnAway()
}

func (c *boundConn) turnAway() {
	if !c.known.Swap(true) { // counted once
		c.strangers.Add(1)
		_ = c.Close()
	}
}

// connState is for http.Server.ConnState.
func connState(conn net.Conn, state http.ConnState) {
	deadline.ConnState(conn, state)
	c, ok := unwrap(conn).(*boundConn)
	if !ok || c.timer == nil {
		return
	}
	c.asking.Store(state == http.StateActive)
	if state == http.StateIdle && c.late.Load() {
		c.turnAway()
	}
}

// unwrap is the connection below TLS and deadlines.
func unwrap(c net.Conn) net.Conn {
	for {
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = outer.NetConn()
	}
}

// CloseWrite ends what is sent and lets the client read it; net/http does so before it
// closes on a client that is still sending.
func (c *boundConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// secure puts TLS on the listener where it is configured. net/http shakes hands
// within server.read_header_timeout and speaks HTTP/2 with who offers it.
func (a *App) secure(l net.Listener) net.Listener {
	if a.certificates == nil {
		return l
	}
	return tls.NewListener(l, a.certificates.Server())
}

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
