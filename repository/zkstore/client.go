package zkstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Bounds of the client's buffers, which it allocates per connection: a packet we
// send is below 4 KiB, the largest we get lists the nodes of a folder, for which
// ZooKeeper's own clients allow 1 MiB.
const (
	sendBuffer    = 64 << 10
	receiveBuffer = 1 << 20
)

// dialer is how the library connects.
type dialer func(network, addr string, limit time.Duration) (net.Conn, error)

// client is one connection of the library and why it has no session, which the
// library only logs. Safe for concurrent use.
type client struct {
	conn   *zk.Conn
	events <-chan zk.Event
	dial   dialer
	limit  time.Duration // of a handshake

	mu      sync.Mutex
	closed  bool
	wire    net.Conn  // the last one dialled
	trouble error     // nil while there is a session
	since   time.Time // of the first trouble in a row
}

// newClient waits for nothing: the library dials in the background.
func newClient(l *link) (*client, error) {
	c := &client{dial: l.dial, limit: l.session * 2 / 3}
	var err error
	c.conn, c.events, err = zk.Connect(l.addrs, l.session,
		zk.WithHostProvider(&hosts{}), zk.WithDialer(c.connect), zk.WithLogger(printer{l.log}), zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(sendBuffer), zk.WithMaxBufferSize(receiveBuffer))
	return c, err
}

// connect is the library's dialer.
func (c *client) connect(network, addr string, limit time.Duration) (net.Conn, error) {
	conn, err := c.dial(network, addr, limit)
	if err != nil {
		c.setTrouble(err)
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(errClosed, conn.Close()) // nobody would end this one
	}
	c.wire = &wire{Conn: conn, client: c, limit: max(limit, c.limit)}
	return c.wire, nil
}

func (c *client) setTrouble(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble == nil {
		c.since = time.Now()
	}
	c.trouble = err
}

// gone reports whether a session there was must have ended for want of a server,
// for longer than it lasts. The library would go on asking for it, and servers
// refuse that for ever when they have lost their data: they know no transaction
// as late as the last one it has seen.
func (c *client) gone(session time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble != nil && time.Since(c.since) > session && c.conn.SessionID() != 0
}

// because adds to an error that only says that nobody answered why that is so.
func (c *client) because(err error) error {
	if !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.trouble != nil:
		return fmt.Errorf("%w: %w", err, c.trouble)
	default:
		return err
	}
}

// close ends the session and waits for the library's goroutines.
func (c *client) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.conn.State() != zk.StateHasSession {
		c.hangUp()
	}
	c.conn.Close() // waits a second for the answer
	c.hangUp()
	for range c.events { // closed by the library's last goroutine
	}
}

// hangUp ends what the library could still wait for.
func (c *client) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire != nil {
		_ = c.wire.Close() // closed already, as a rule
	}
}
