package deadline

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
)

const headTimeout = 300 * time.Millisecond

// serve runs a server as the service does, on the loopback.
func serve(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := &http.Server{Handler: h, ReadHeaderTimeout: headTimeout, ReadTimeout: time.Minute, IdleTimeout: -1}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(Listen(l, Limits{Read: headTimeout, Write: headTimeout})) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		check.OK(t, server.Shutdown(ctx))
		serving.Wait()
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr, send string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	check.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	check.Must(t, check.Err(io.WriteString(c, send)))
	return c
}

// A client that sends its head too slowly, or nothing more, is closed on.
func TestSlowClientIsClosed(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	for name, send := range map[string]string{
		"nothing": "", "half a head": "GET / HTTP/1.1\r\nHost: a\r\n", "idle after an answer": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		got, err := io.ReadAll(dial(t, addr, send))
		if err != nil || strings.HasSuffix(send, "\r\n\r\n") != strings.HasSuffix(string(got), "ok") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A client that reads nothing is closed on.
func TestClientThatReadsNothingIsClosed(t *testing.T) {
	ended := make(chan error, 1)
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<20))
		}
		ended <- err
	})
	dial(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case err := <-ended:
		wantTimeout(t, err)
	case <-time.After(10 * time.Second):
		t.Error("still writing")
	}
}

// A handler that waits learns that its client has gone.
func TestHandlerLearnsThatTheClientIsGone(t *testing.T) {
	began, ended := make(chan bool), make(chan error, 1)
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		select {
		case <-r.Context().Done():
			ended <- nil
		case <-time.After(10 * time.Second):
			ended <- context.DeadlineExceeded
		}
	})
	c := dial(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	_ = c.Close()
	check.OK(t, <-ended, "the handler was not told")
}

// Requests one after the other, some slower than a sweep, some sent before the
// answer to the one before: each is answered once.
func TestRequestsOnOneConnection(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(Period + Period/2)
		}
		_, _ = io.WriteString(w, r.URL.Path)
	})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := dial(t, addr, "")
			answers := bufio.NewReader(c)
			for i := range 200 {
				paths := []string{"/a", "/b"}
				if i%100 == 50 {
					paths = []string{"/slow", "/b"}
				}
				for _, path := range paths {
					_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				}
				for _, path := range paths {
					wantAnswer(t, answers, path)
				}
			}
		})
	}
	clients.Wait()
}

func wantAnswer(t *testing.T, answers *bufio.Reader, want string) {
	t.Helper()
	r, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || string(body) != want {
		t.Errorf("%q, %v; want %q", body, err, want)
	}
}
