//go:build unix

package testserver

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
)

// Fake is a server that answers as serve says, with each connection in a goroutine of its own.
// It gives its address. The connections are closed when serve returns, and when the test ends.
func Fake(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
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
// direction, and what they return is handed on in its place; nil ends the connection. The server
// executes what it was sent, also when the client has gone.
func Forward(client net.Conn, addr string, request, answer func(piece []byte) []byte) {
	server, err := net.DialTimeout("tcp", addr, time.Second)
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

// pass hands on, edited unless edit is nil, until one end fails or edit gives nil.
func pass(to io.Writer, from io.Reader, edit func([]byte) []byte) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		piece := buf[:n]
		if edit != nil && n > 0 {
			piece = edit(piece)
		}
		if _, failed := to.Write(piece); piece == nil || err != nil || failed != nil {
			return
		}
	}
}

// Weather is what happens to what passes a Proxy, a piece at a time. Chances are
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

// Proxy is a Fake that forwards to a server that can be exchanged, through a weather. It
// knows no protocol. Safe for concurrent use.
type Proxy struct {
	Addr string // host:port to connect to

	weather atomic.Pointer[Weather]
	late    atomic.Int64 // requests that are being held back

	mu      sync.Mutex
	target  string
	clients map[net.Conn]struct{}
}

// NewProxy listens on a free port of 127.0.0.1 and forwards to target, until t ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target, clients: map[net.Conn]struct{}{}}
	p.SetWeather(Weather{})
	p.Addr = Fake(t, p.serve)
	return p
}

// SetWeather changes what happens from the next piece on.
func (p *Proxy) SetWeather(w Weather) { p.weather.Store(&w) }

// Late is how many requests are being held back now.
func (p *Proxy) Late() int64 { return p.late.Load() }

// Switch forwards to another server from now on; present connections end.
func (p *Proxy) Switch(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	for c := range p.clients {
		_ = c.Close() // its reader or writer sees the error
	}
}

// serve notes a client before it looks for the target, so that a Switch meanwhile ends the connection.
func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	target := p.target
	p.clients[client] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.clients, client)
		p.mu.Unlock()
	}()
	Forward(client, target, func(request []byte) []byte {
		w := *p.weather.Load()
		if happens(w.DropRequest) {
			_ = client.Close()
			return nil
		}
		if happens(w.LateRequest) {
			p.late.Add(1)
			time.Sleep(rand.N(w.Longest + 1))
			p.late.Add(-1)
		}
		return request
	}, func(reply []byte) []byte {
		w := *p.weather.Load()
		if happens(w.DropReply) {
			return nil
		}
		if happens(w.LateReply) {
			time.Sleep(rand.N(w.Longest + 1))
		}
		return reply
	})
}

func happens(chance float64) bool { return chance > 0 && rand.Float64() < chance }
