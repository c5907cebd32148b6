//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fake is a server that answers as serve says, with each connection in a goroutine of its own.
// It gives its address. The connections are closed when serve returns, and when the test ends.
func Fake(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	open := map[net.Conn]bool{}
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			work.Go(func() {
				serve(conn)
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return listener.Addr().String()
}

// Forward hands on what a client of Fake sends to the server at addr, and its answers, until
// either ends. request and answer, unless they are nil, see each piece, in a goroutine for each
// direction, and what they return is handed on in its place. The server executes what it was
// sent, also when the client has gone.
func Forward(client net.Conn, addr string, request, answer func(piece []byte) []byte) {
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	var answers sync.WaitGroup
	answers.Go(func() {
		pass(client, server, answer)
		_ = client.Close()                 // no request gets an answer any more
		_, _ = io.Copy(io.Discard, server) // a server whose answers nobody takes may execute no more
	})
	pass(server, client, request)
	_ = server.(*net.TCPConn).CloseWrite()                   // fails where the server has gone
	_ = server.SetReadDeadline(time.Now().Add(closingLimit)) // likewise
	answers.Wait()
}

// closingLimit is how long a server may take for what it was sent, once its client has gone.
const closingLimit = time.Second

// pass hands on, edited unless edit is nil, until one end fails.
func pass(to io.Writer, from io.Reader, edit func([]byte) []byte) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		piece := buf[:n]
		if edit != nil {
			piece = edit(piece)
		}
		if _, failed := to.Write(piece); err != nil || failed != nil {
			return
		}
	}
}

// chunk is the most that a proxy forwards, and does something to, at once.
const chunk = 64 << 10

// Weather is what happens to what passes a Proxy, a chunk at a time. Chances are
// 0…1; a delay is drawn evenly from 0 to its longest.
type Weather struct {
	// DropRequest closes the connection in place of a request, DropReply in
	// place of a reply: the server has executed what the client hears no more of.
	DropRequest, DropReply float64
	// LateRequest and LateReply are chances of a delay. A late request arrives
	// even when its client has gone by then.
	LateRequest, LateReply float64
	Longest                time.Duration
}

// String tells what is not calm.
func (w Weather) String() string {
	var parts []string
	for _, c := range []struct {
		chance float64
		what   string
	}{
		{w.DropRequest, "requests dropped"}, {w.DropReply, "replies dropped"},
		{w.LateRequest, "requests late"}, {w.LateReply, "replies late"},
	} {
		if c.chance > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% of %s", 100*c.chance, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// Proxy forwards TCP to a server that can be exchanged, through a weather. It
// knows no protocol. Safe for concurrent use.
type Proxy struct {
	Addr string // host:port to connect to

	listener net.Listener
	weather  atomic.Pointer[Weather]
	late     atomic.Int64  // requests that are being held back
	patience time.Duration // how long a client waits for a target that does not listen
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	target string
	conns  map[net.Conn]struct{}
}

// NewProxy listens on a free port of 127.0.0.1 and forwards to target, until t ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return newProxy(t, target, 0)
}

func newProxy(t testing.TB, target string, patience time.Duration) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &Proxy{Addr: l.Addr().String(), listener: l, target: target, patience: patience,
		conns: map[net.Conn]struct{}{}}
	p.SetWeather(Weather{})
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = p.listener.Close()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// SetWeather changes what happens from the next chunk on.
func (p *Proxy) SetWeather(w Weather) { p.weather.Store(&w) }

// Late is how many requests are being held back now.
func (p *Proxy) Late() int64 { return p.late.Load() }

// Switch forwards to another server from now on, or to none where target is ""; present connections end.
func (p *Proxy) Switch(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Cut ends all present connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // its reader or writer sees the error
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.wg.Go(func() { p.serve(client) })
		}
	}
}

var errNoTarget = errors.New("no target")

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	var server net.Conn
	err := errNoTarget
	if target != "" {
		err = waitUntil(p.patience, func() (err error) {
			server, err = net.DialTimeout("tcp", target, time.Second)
			return err
		})
	}
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.enter(target, client, server) {
		return
	}
	defer p.leave(client, server)
	var replies sync.WaitGroup
	replies.Go(func() {
		p.replies(client, server)
		_ = client.Close()
	})
	p.requests(client, server)
	_ = server.(*net.TCPConn).CloseWrite() // what was forwarded is executed all the same
	replies.Wait()
}

// enter notes a connection, unless the target has changed meanwhile.
func (p *Proxy) enter(target string, client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || target != p.target {
		_, _ = client.Close(), server.Close()
		return false
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	return true
}

func (p *Proxy) leave(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = client.Close(), server.Close()
	delete(p.conns, client)
	delete(p.conns, server)
}

func (p *Proxy) requests(client, server net.Conn) {
	buf := make([]byte, chunk)
	for {
		n, err := client.Read(buf)
		if n > 0 && !p.request(server, buf[:n]) || err != nil {
			return
		}
	}
}

// request forwards one chunk; false ends the connection.
func (p *Proxy) request(server net.Conn, data []byte) bool {
	w := *p.weather.Load()
	if happens(w.DropRequest) {
		return false
	}
	if happens(w.LateRequest) {
		p.late.Add(1)
		time.Sleep(rand.N(w.Longest + 1))
		p.late.Add(-1)
	}
	_, err := server.Write(data)
	return err == nil
}

func (p *Proxy) replies(client, server net.Conn) {
	buf := make([]byte, chunk)
	for {
		n, err := server.Read(buf)
		if n > 0 && !p.reply(client, buf[:n]) || err != nil {
			return
		}
	}
}

// reply forwards one chunk; false ends the connection.
func (p *Proxy) reply(client net.Conn, data []byte) bool {
	w := *p.weather.Load()
	if happens(w.DropReply) {
		return false
	}
	if happens(w.LateReply) {
		time.Sleep(rand.N(w.Longest + 1))
	}
	_, err := client.Write(data)
	return err == nil
}

func happens(chance float64) bool { return chance > 0 && rand.Float64() < chance }
