package zkstore

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// errNoSession: a server took the connection and opened no session.
var errNoSession = errors.New("no session was opened")

// lengthBytes is the length that precedes each packet of ZooKeeper.
const lengthBytes = 4

// wire bounds the handshake: the library would wait for it up to ten times as
// long as for anything else, and for its second half for ever. One goroutine
// reads.
type wire struct {
	net.Conn
	client *client
	limit  time.Duration // of the handshake
	got    int           // bytes; the server has answered once it is above lengthBytes
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
	switch {
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
