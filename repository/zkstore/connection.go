package zkstore

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// The client library reconnects by itself, with the session it had. What it lacks is here. Its calls know no context,
// so each runs in a goroutine of its own. It only logs why it has no session, so its dials and its events are watched.
// And it waits long for a server that takes a connection and is silent, and for ever for a session that the servers do
// not know, as when they have lost their data: after a session's timeout without one, or patience, another client is
// opened.

var (
	// errClosed is the answer to a call after Close.
	errClosed = errors.New("the store is closed")
	// errNoSession: a server took the connection and opened no session.
	errNoSession = errors.New("no session was opened")
)

const (
	// maxPacket bounds an answer, in bytes, as ZooKeeper's own clients do. The longest one lists the
	// nodes of a folder.
	maxPacket = 1 << 20
	// patience is how long a client is waited for at least.
	patience = 5 * time.Second
	// sendBuffer is what the client allocates for a connection: a packet we send is below 4 KiB.
	sendBuffer = 64 << 10
)

// link is the connection of a store, made at the first call. Safe for concurrent use.
type link struct {
	addrs   []string      // in an order of this process
	turn    atomic.Uint32 // of the server that is tried next
	session time.Duration // its timeout
	log     *log.Logger
	observe model.Observe
	dial    zk.Dialer

	closing sync.WaitGroup // clients that were replaced and say goodbye, for some seconds at most

	mu     sync.Mutex
	client *client // nil before the first call
	closed bool
}

func newLink(o Options) *link {
	said := slog.NewLogLogger(o.Log.With("by", "the client of ZooKeeper").Handler(), slog.LevelDebug)
	addrs := zk.FormatServers(o.Addrs)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	return &link{addrs: addrs, session: o.SessionTimeout, log: said, observe: o.Observe, dial: net.DialTimeout}
}

// call runs one request of the library, which is observed as op, and returns its answer, or as soon as
// ctx ends without one. The request may still be carried out later: callers must be prepared for that
// anyway, as an answer may be lost.
func call[T any](ctx context.Context, l *link, op string, f func(*zk.Conn) (T, error)) (value T, err error) {
	ctx, end := l.observe.Begin(ctx, "zookeeper", op)
	defer func() {
		failure := err
		if isConflict(err) { // an answer about the nodes
			failure = nil
		}
		end(failure)
	}()
	if err := ctx.Err(); err != nil {
		return value, err
	}
	c, err := l.connection()
	if err != nil {
		return value, err
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := f(c.conn)
		done <- answer{got, err}
	}()
	select {
	case a := <-done:
		return a.value, c.because(a.err)
	case <-ctx.Done():
		return value, c.because(ctx.Err())
	}
}

// connection is the client that is in use, or another one.
func (l *link) connection() (*client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.client != nil && l.client.away() > max(l.session, patience) {
		l.closing.Go(l.client.conn.Close)
		l.client = nil
	}
	if l.client == nil {
		c := &client{dial: l.dial, since: time.Now()}
		var err error
		c.conn, _, err = zk.Connect(l.addrs, l.session, // waits for nothing: it dials in the background
			zk.WithHostProvider(&hosts{link: l}), zk.WithDialer(c.connect), zk.WithEventCallback(c.notice),
			zk.WithLogger(l.log), zk.WithLogInfo(false),
			zk.WithMaxConnBufferSize(sendBuffer), zk.WithMaxBufferSize(maxPacket))
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		l.client = c
	}
	return l.client, nil
}

// close ends the session, so that ZooKeeper removes its ephemeral nodes at once. It waits a second for the answer.
func (l *link) close() {
	l.mu.Lock()
	c := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if c != nil {
		c.conn.Close()
	}
	l.closing.Wait()
}

// sessionID is that of the session which the connection has or had last; 0 without one.
func (l *link) sessionID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == nil {
		return 0
	}
	return l.client.conn.SessionID()
}

// client is one connection of the library. Safe for concurrent use.
type client struct {
	conn *zk.Conn
	dial zk.Dialer

	mu      sync.Mutex
	trouble error     // why there is no session; nil when nothing is known, or there is one
	since   time.Time // since when there is no session; zero while there is one
}

// connect is the library's dialer.
func (c *client) connect(network, addr string, limit time.Duration) (net.Conn, error) {
	conn, err := c.dial(network, addr, limit)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.trouble = err
	}
	return conn, err
}

// notice is told what becomes of the connection.
func (c *client) notice(event zk.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch event.State {
	case zk.StateHasSession:
		c.trouble, c.since = nil, time.Time{}
	case zk.StateConnected:
		c.trouble = fmt.Errorf("%w by %s", errNoSession, event.Server)
	case zk.StateDisconnected:
		if c.since.IsZero() {
			c.since = time.Now()
		}
	}
}

// away is for how long there has been no session.
func (c *client) away() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return 0
	}
	return time.Since(c.since)
}

// because adds the reason to an error that only says that no server answered.
func (c *client) because(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble != nil && (errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrConnectionClosed) ||
		errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("%w: %w", err, c.trouble)
	}
	return err
}

// hosts hands the servers to the library in turn, and to the next client those after the one at which a client was
// stuck. Unlike the library's own it leaves looking up names to each dial, as servers may move. One goroutine uses it.
type hosts struct {
	link  *link
	tried int // since the last session
}

// Init takes no addresses: the link has them.
func (h *hosts) Init([]string) error { return nil }

// Len is the number of servers.
func (h *hosts) Len() int { return len(h.link.addrs) }

// Next returns the next server, and whether all have been tried: then the
// library fails what waits, and sleeps a second.
func (h *hosts) Next() (addr string, all bool) {
	if all = h.tried >= h.Len(); all {
		h.tried = 0
	}
	h.tried++
	return h.link.addrs[int(h.link.turn.Add(1)-1)%h.Len()], all
}

// Connected counts the server of the session as tried when that is lost.
func (h *hosts) Connected() { h.tried = 1 }
