// Package guard bounds what the connections of clients cost.
//
// A connection has a state of http.ConnState: it is new until its first request has come, active
// until the answer to a request has been written, and idle after that. Once a part of the next request has come, it is
// new again. A sweep closes what is in one state for too long: clients that say nothing or send a request too slowly,
// and clients that do not read their answers. It stands in for the timeouts of http.Server, whose timers cost a
// twentieth of a small answer, and serves the front end for Redis clients as well, which may be idle for ever.
//
// When the bound on connections is reached, the one that has been new or idle for the longest is
// closed for the one that comes, so that a crowd which asks for nothing keeps nobody out.
package guard

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"shardid/service/background"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// period is between two sweeps. A connection is closed at most two periods late.
	period = 250 * time.Millisecond
	// acceptPause is how long a listener waits after a connection that it could not accept.
	acceptPause = 100 * time.Millisecond
	// looked is how many connections are compared to find the one that gives way.
	looked = 64
	// unlimited is the state of a connection that may have HTTP/2, whose streams never let a busy one be idle.
	unlimited = http.StateHijacked
)

// Limits are how many connections there may be, and how long one may be in each state.
type Limits struct {
	Most              int
	New, Idle, Active time.Duration
}

// Guard watches the connections of all its listeners together. Make one with New. Safe for
// concurrent use.
type Guard struct {
	limits Limits
	log    background.RateLimitedLog
	began  time.Time
	now    atomic.Int64 // nanoseconds since began, as of the last sweep

	refused, cut prometheus.Counter

	mu       sync.Mutex
	conns    map[*conn]struct{}
	sweeping bool // a sweep is due
}

// conn is a connection that was accepted.
type conn struct {
	net.Conn
	guard *Guard
	plain atomic.Bool  // it has HTTP and no TLS, so what is read of it while it is idle begins a request
	since atomic.Int64 // when it got its state, as in Guard.now, times 8, plus the state
}

// New makes a guard that has no listener yet. registry exports how many connections there are, and of what
// happened since the start: how many were closed because there were too many, and because a request did not
// come, or its answer was not read, in time.
func New(limits Limits, log *slog.Logger, registry prometheus.Registerer) *Guard {
	g := &Guard{limits: limits, log: background.RateLimitedLog{Logger: log, Every: time.Minute},
		began: time.Now(), conns: make(map[*conn]struct{})}
	metric.Gauge(registry, "shardid_connections", "Connections of clients that are open.",
		func() float64 { return float64(g.Open()) })
	g.refused = metric.Counter(registry, "shardid_connections_refused_total",
		"Connections of clients that ended because server.max_connections were open: the one that was idle for "+
			"the longest, or the new one when none was idle.")
	g.cut = metric.Counter(registry, "shardid_connections_cut_total",
		"Connections of clients that ended because a request or a token did not come, or an answer was not "+
			"read, in time.")
	return g
}

// Open is how many connections there are.
func (g *Guard) Open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns)
}

// Listen guards the connections of a listener. They outlive its Close.
func (g *Guard) Listen(l net.Listener) net.Listener { return listener{l, g} }

type listener struct {
	net.Listener
	guard *Guard
}

// Accept implements net.Listener. Its only error is net.ErrClosed: after any other, such as that of a process which is
// out of descriptors for a moment, it tries again.
func (l listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			l.guard.log.Log(slog.LevelWarn, "if files are too many, raise their limit (ulimit -n, LimitNOFILE) or "+
				"lower server.max_connections: a connection cannot be accepted", "error", err)
			time.Sleep(acceptPause)
			continue
		}
		if c := l.guard.admit(inner); c != nil {
			return c, nil
		}
		_ = inner.Close() // its client can try another replica
	}
}

// admit takes a connection. Beyond the bound another one gives way, or there is nil.
func (g *Guard) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, guard: g}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.sweeping {
		g.sweeping = true
		g.now.Store(int64(time.Since(g.began)))
		time.AfterFunc(period, g.sweep)
	}
	if len(g.conns) >= g.limits.Most {
		g.refused.Inc()
		g.log.Log(slog.LevelWarn, "find the clients that keep connections, add replicas, or raise "+
			"server.max_connections: there are too many, and those that were idle for the longest are closed",
			"max_connections", g.limits.Most, "client", inner.RemoteAddr().String())
		last := g.longestIdle()
		if last == nil {
			return nil
		}
		g.drop(last)
	}
	g.conns[c] = struct{}{}
	// The exact time: in a crowd that keeps arriving the one that came last must not give way first.
	c.noteState(http.StateNew, time.Since(g.began))
	return c
}

// longestIdle is the connection that has been new or idle for the longest, of some: a range over a map
// begins anywhere. It is nil when all are active. Callers hold mu.
func (g *Guard) longestIdle() (last *conn) {
	var longest time.Duration
	n := 0
	for c := range g.conns {
		state, since := c.state()
		if waits := state == http.StateNew || state == http.StateIdle; waits && (last == nil || since < longest) {
			last, longest = c, since
		}
		if n++; n >= looked && last != nil {
			break
		}
	}
	return last
}

// drop closes a connection. Callers hold mu.
func (g *Guard) drop(c *conn) {
	delete(g.conns, c)
	_ = c.Conn.Close()
}

// sweep closes what is in one state for too long, and continues while there are connections.
func (g *Guard) sweep() {
	now := time.Since(g.began)
	g.now.Store(int64(now))
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		state, since := c.state()
		var limit time.Duration
		switch state {
		case http.StateNew:
			limit = g.limits.New
		case http.StateIdle:
			if !c.plain.Load() { // clients of Redis expect no such limit, and with TLS the server has it
				continue
			}
			limit = g.limits.Idle
		case http.StateActive:
			limit = g.limits.Active
		default:
			continue
		}
		if now-since > limit+period {
			if state != http.StateIdle {
				g.cut.Inc()
			}
			g.drop(c)
		}
	}
	if g.sweeping = len(g.conns) > 0; g.sweeping {
		time.AfterFunc(period, g.sweep)
	}
}

// ConnState is for http.Server.ConnState. With TLS the server itself must limit requests and answers.
func (g *Guard) ConnState(c net.Conn, state http.ConnState) {
	switch inner, plain := c.(*conn); {
	case !plain && state == http.StateActive:
		state = unlimited
	case plain && state == http.StateNew:
		inner.plain.Store(true)
	}
	g.SetState(c, state)
}

// SetState notes the state of a connection. Each time that it becomes active counts anew.
func (g *Guard) SetState(c net.Conn, state http.ConnState) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if c, ok := c.(*conn); ok {
		if old, _ := c.state(); old != state || state == http.StateActive {
			c.noteState(state, time.Duration(g.now.Load()))
		}
	}
}

const states = 8 // more than there are

func (c *conn) noteState(state http.ConnState, since time.Duration) {
	c.since.Store(int64(since)*states + int64(state))
}

func (c *conn) state() (state http.ConnState, since time.Duration) {
	n := c.since.Load()
	return http.ConnState(n % states), time.Duration(n / states)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if state, _ := c.state(); n > 0 && c.plain.Load() && state == http.StateIdle {
		c.noteState(http.StateNew, time.Duration(c.guard.now.Load()))
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.guard.mu.Lock()
	delete(c.guard.conns, c)
	c.guard.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends what is sent and lets the client read it. net/http does so before it closes on a
// client that is still sending.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
