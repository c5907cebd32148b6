package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
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

// connections bounds how many clients are connected at once, and counts. Safe for
// concurrent use.
type connections struct {
	most            int64
	log             *slog.Logger
	full, failing   rate.Sometimes // a line a minute each
	open            atomic.Int64
	refused, failed atomic.Int64 // since the start
}

// newConnections takes the configured bound, 0 for the default.
func newConnections(most int, log *slog.Logger) *connections {
	if most == 0 {
		most = defaultConnections()
	}
	return &connections{most: int64(most), log: log,
		full: rate.Sometimes{Interval: time.Minute}, failing: rate.Sometimes{Interval: time.Minute}}
}

// boundListener is a listener whose connections are bounded.
type boundListener struct {
	net.Listener
	*connections
}

// Accept implements net.Listener. A connection too many is closed at once, so that its
// client can try another replica.
func (l boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.note(err)
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &boundConn{Conn: conn, connections: l.connections}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
		refused := l.refused.Add(1)
		l.full.Do(func() {
			l.log.Warn("too many connections, further ones are closed at once: find the clients that keep them, add replicas, or raise server.max_connections",
				"max_connections", l.most, "refused", refused)
		})
	}
}

// note tells of a connection that could not be accepted; net/http tries again.
func (l boundListener) note(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	failed := l.failed.Add(1)
	l.failing.Do(func() {
		l.log.Warn("a connection cannot be accepted: if files are too many, raise their limit (ulimit -n, LimitNOFILE) or lower server.max_connections",
			"error", err, "failed", failed, "connections", l.open.Load())
	})
}

// boundConn is counted until it is closed.
type boundConn struct {
	net.Conn
	*connections
	closed sync.Once
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.closed.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// CloseWrite ends what is sent and lets the client read it; net/http does so before it
// closes on a client that is still sending.
func (c *boundConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
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
