package zkstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// errClosed is the answer to a call after Close.
var errClosed = errors.New("the store is closed")

// link is the connection of a store, made at the first call. The client library
// reconnects by itself.
//
// The library's calls know no context: without a server they wait for a
// reconnect. So each runs in a goroutine that the link owns; a caller who gives
// up leaves it behind, it ends with the next failed connect or with close, which
// waits for it. Its request may still be carried out later: callers must be
// prepared for that anyway, as an answer may be lost. Safe for concurrent use.
type link struct {
	addrs   []string
	session time.Duration
	log     *slog.Logger
	dial    dialer
	stop    context.CancelFunc // ends dials under way and refuses others

	mu     sync.Mutex
	client *client // nil before the first call
	closed bool

	calls sync.WaitGroup
}

func newLink(o Options) *link {
	ctx, stop := context.WithCancel(context.Background())
	dial := func(network, addr string, limit time.Duration) (net.Conn, error) {
		d := net.Dialer{Timeout: limit}
		return d.DialContext(ctx, network, addr)
	}
	return &link{addrs: o.Addrs, session: o.SessionTimeout, log: o.Log, dial: dial, stop: stop}
}

// call runs one request of the library and returns its answer, or as soon as ctx
// ends without one.
func call[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan answer, 1)
	c, err := l.begin(func(conn *zk.Conn) {
		value, err := f(conn)
		done <- answer{value, err}
	})
	if err != nil {
		return none, err
	}
	select {
	case a := <-done:
		return a.value, c.because(a.err)
	case <-ctx.Done():
		return none, c.because(ctx.Err())
	}
}

// begin starts f in a goroutine of the link's, with the client it returns.
func (l *link) begin(f func(*zk.Conn)) (*client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.client != nil && l.client.gone(l.session) {
		old := l.client
		l.calls.Go(old.close)
		l.client = nil
	}
	if l.client == nil {
		fresh, err := newClient(l)
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		l.client = fresh
	}
	conn := l.client.conn
	l.calls.Go(func() { f(conn) })
	return l.client, nil
}

// close ends the session, so that ZooKeeper removes its ephemeral nodes at once,
// and waits for all goroutines: about 3 s when no server answers.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	c := l.client
	l.client = nil
	l.mu.Unlock()
	if c != nil {
		c.close()
	}
	l.stop()
	l.calls.Wait()
}

// sessionID is that of the session which the connection has or had last.
func (l *link) sessionID(ctx context.Context) (int64, error) {
	return call(ctx, l, func(c *zk.Conn) (int64, error) { return c.SessionID(), nil })
}
