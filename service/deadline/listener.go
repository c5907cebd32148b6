package deadline

import (
	"net"
	"sync"
	"time"
)

// Period is between two sweeps, so how late a deadline may be.
const Period = 250 * time.Millisecond

// Limits bound single calls of a connection, to within two Periods, whatever
// deadlines it has; 0 means no limit. A client that goes silent, or reads nothing,
// is noticed without a deadline for each request. What watches the client while a handler
// runs has none.
type Limits struct {
	Read, Write time.Duration
}

// Listener accepts connections whose deadlines a sweep enforces. Safe for
// concurrent use; connections outlive a Close, as net.Listener has it.
type Listener struct {
	net.Listener

	limits Limits
	began  time.Time

	mu       sync.Mutex
	conns    map[*conn]struct{}
	sweeping bool // a sweep is due
}

// Listen wraps a listener.
func Listen(l net.Listener, limits Limits) *Listener {
	return &Listener{Listener: l, limits: limits, began: time.Now(), conns: make(map[*conn]struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := newConn(inner, l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	l.plan()
	return c, nil
}

// plan sees to the next sweep; without connections there is none, so that an idle
// process stays idle. Callers hold mu.
func (l *Listener) plan() {
	if !l.sweeping && len(l.conns) > 0 {
		time.AfterFunc(Period, l.sweep)
		l.sweeping = true
	}
}

// sweep enforces what has passed.
func (l *Listener) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for c := range l.conns {
		c.sweep(now)
	}
	l.sweeping = false
	l.plan()
}

func (l *Listener) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}
