package client

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"shardid/client/clienttest"
)

// TestMain finds goroutines of a client that outlive it. Leak detectors are modules, which
// users of this one would get too.
func TestMain(m *testing.M) {
	code := m.Run()
	for till := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("hold.(*Pool)")) && !bytes.Contains(stacks, []byte("client.(*Client)")) &&
			!bytes.Contains(stacks, []byte("client.(*Generator)")) {
			break
		}
		if time.Now().After(till) {
			fmt.Printf("goroutines are left:\n%s", stacks)
			code = 1
			break
		}
	}
	os.Exit(code)
}

// fake stands for a shardid.
func fake(tb testing.TB) *clienttest.Server {
	tb.Helper()
	s := clienttest.Start()
	tb.Cleanup(s.Close)
	return s
}

// hung is a server that reads requests, tells of each, and never answers.
func hung(tb testing.TB) (addr string, came <-chan struct{}) {
	tb.Helper()
	told := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // what is read to its end is told when its caller has gone
		told <- struct{}{}
		<-r.Context().Done()
	}))
	tb.Cleanup(server.Close)
	return server.URL, told
}

func newClient(tb testing.TB, opts Options) *Client {
	tb.Helper()
	c, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}
