//go:build unix

package testserver

import (
	"net"
	"sync"
	"testing"
)

// Hostile is a server that answers as serve says, with each connection in a goroutine of its own.
// It gives its address. The connections are closed when serve returns, and when the test ends.
func Hostile(t testing.TB, serve func(net.Conn)) string {
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
