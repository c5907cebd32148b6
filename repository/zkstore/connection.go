package zkstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

var (
	// errClosed is the answer to a call after Close.
	errClosed = errors.New("the store is closed")
	// errNoSession: a server took the connection and opened no session.
	errNoSession = errors.New("no session was opened")
	// errOtherServer: what answered is no ZooKeeper.
	errOtherServer = errors.New("that is no answer of ZooKeeper")
)

// dialer is how the library connects.
type dialer func(network, addr string, limit time.Duration) (net.Conn, error)

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
	observe model.Observe
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
	return &link{addrs: o.Addrs, session: o.SessionTimeout, log: o.Log, observe: o.Observe, dial: dial, stop: stop}
}

// call runs one request of the library, which is observed as op, and returns its answer, or as
// soon as ctx ends without one.
func call[T any](ctx context.Context, l *link, op string, f func(*zk.Conn) (T, error)) (value T, err error) {
	ctx, end := l.observe.Begin(ctx, "zookeeper", op)
	defer func() {
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion) {
			end(nil) // an answer about the nodes
			return
		}
		end(err)
	}()
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

// begin starts f in a goroutine of the link, with the client it returns.
func (l *link) begin(f func(*zk.Conn)) (*client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.client != nil && l.client.gone(l.session) {
		l.calls.Go(l.client.close)
		l.client = nil
	}
	if l.client == nil {
		c := &client{dial: l.dial, limit: l.session * 2 / 3}
		var err error
		c.conn, c.events, err = zk.Connect(l.addrs, l.session, // waits for nothing: it dials in the background
			zk.WithHostProvider(&hosts{}), zk.WithDialer(c.connect), zk.WithLogger(printer{l.log}), zk.WithLogInfo(false),
			zk.WithMaxConnBufferSize(sendBuffer), zk.WithMaxBufferSize(maxPacket))
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		l.client = c
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
	return call(ctx, l, "session", func(c *zk.Conn) (int64, error) { return c.SessionID(), nil })
}

// maxPacket bounds an answer, in bytes, as ZooKeeper's own clients do. The longest one lists the
// nodes of a folder.
const maxPacket = 1 << 20

// sendBuffer is what the client allocates for a connection: a packet we send is below 4 KiB.
const sendBuffer = 64 << 10

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
	trouble error     // the latest; it may be over
	since   time.Time // of the first trouble in a row; zero while there is a session
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
		return nil, errors.Join(errClosed, conn.Close()) // close has ended the last one already
	}
	c.wire = &wire{Conn: conn, client: c, limit: max(limit, c.limit)}
	return c.wire, nil
}

// setTrouble notes why there is no session; nil says that there is one.
func (c *client) setTrouble(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.since = time.Time{}
		return
	case c.since.IsZero():
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
	return !c.since.IsZero() && time.Since(c.since) > session && c.conn.SessionID() != 0
}

// because adds the reason to an error that only says that no server answered.
func (c *client) because(err error) error {
	if !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errClosed
	case c.since.IsZero() && (c.trouble == nil || !errors.Is(err, zk.ErrConnectionClosed)): // that one has a reason, even if another connection is open by now
		return err
	default:
		return fmt.Errorf("%w: %w", err, c.trouble)
	}
}

// close ends the session and waits for the library's goroutines.
func (c *client) close() {
	hangUp := func() { // ends what the library could still wait for
		if c.wire != nil {
			_ = c.wire.Close() // closed already, as a rule
		}
	}
	c.mu.Lock()
	c.closed = true // from here on no other is dialled
	if c.conn.State() != zk.StateHasSession {
		hangUp()
	}
	c.mu.Unlock()
	c.conn.Close() // waits a second for the answer
	hangUp()
	for range c.events { // closed by the library's last goroutine
	}
}

const (
	// lengthBytes is the length that precedes each packet of ZooKeeper.
	lengthBytes = 4
	// maxOpening bounds the answer that opens a session, which has 37 bytes. The library allocates
	// what the length says, and the text of another kind of server read as a length is a gigabyte.
	maxOpening = 128
)

// wire bounds the handshake: the library would wait for it up to ten times as
// long as for anything else, and for its second half for ever. One goroutine
// reads.
type wire struct {
	net.Conn
	client *client
	limit  time.Duration // of the handshake
	got    int           // bytes; the server has answered once it is above lengthBytes
	length [lengthBytes]byte
}

// SetReadDeadline is the library's, or that of the handshake if it is sooner.
func (w *wire) SetReadDeadline(t time.Time) error {
	if w.got <= lengthBytes {
		if own := time.Now().Add(w.limit); t.IsZero() || own.Before(t) {
			t = own
		}
	}
	return w.Conn.SetReadDeadline(t)
}

// Read notices how the handshake ends, and the connection.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	before := w.got
	w.got = min(w.got+n, lengthBytes+1)
	if before < lengthBytes {
		copy(w.length[before:], p[:n])
	}
	announced := binary.BigEndian.Uint32(w.length[:])
	switch {
	case before < lengthBytes && w.got >= lengthBytes && announced > maxOpening:
		err = fmt.Errorf("%w by %s: %w: it begins with %q", errNoSession, w.RemoteAddr(), errOtherServer, w.length[:])
		w.client.setTrouble(err)
		return 0, err
	case before > lengthBytes && err != nil:
		w.client.setTrouble(fmt.Errorf("lost %s: %w", w.RemoteAddr(), err))
	case before > lengthBytes:
	case w.got > lengthBytes:
		w.client.setTrouble(nil)
	case err != nil:
		w.client.setTrouble(fmt.Errorf("%w by %s: %w", errNoSession, w.RemoteAddr(), err))
	}
	return n, err
}

// hosts hands the servers to the library in turn. Unlike the library's own it
// leaves looking up names to each dial, as servers may move. One goroutine uses
// it.
type hosts struct {
	addrs []string
	next  int       // in addrs
	tried int       // since the last session
	since time.Time // of that session
}

// Init takes the addresses, which the library has shuffled.
func (h *hosts) Init(addrs []string) error {
	h.addrs = addrs
	return nil
}

// Len is the number of servers.
func (h *hosts) Len() int { return len(h.addrs) }

// Next returns the next server, and whether all have been tried: then the
// library fails what waits, and sleeps a second.
func (h *hosts) Next() (addr string, all bool) {
	if all = h.tried >= len(h.addrs); all {
		h.tried = 0
	}
	addr = h.addrs[h.next]
	h.next = (h.next + 1) % len(h.addrs)
	h.tried++
	return addr, all
}

// Connected lets the next connect follow at once when the session's connection is
// lost, unless that happens more than once a second.
func (h *hosts) Connected() {
	h.tried = 0
	if time.Since(h.since) < time.Second {
		h.tried = len(h.addrs)
	}
	h.since = time.Now()
}

// printer is the library's logger.
type printer struct{ log *slog.Logger }

// Printf logs one message.
func (p printer) Printf(format string, args ...any) {
	p.log.Debug("zookeeper client", "message", fmt.Sprintf(format, args...))
}
