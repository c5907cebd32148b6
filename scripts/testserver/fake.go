//go:build unix

package testserver

import (
	"io"
	"net"
	"sync"
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
