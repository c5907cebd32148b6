package guard

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve has an HTTP server guarded until the test ends. It answers /large with more than sockets hold, and
// any other path when the body has come.
func serve(t *testing.T, limits Limits, log *slog.Logger) (g *Guard, addr string, registry *prometheus.Registry) {
	t.Helper()
	registry = prometheus.NewRegistry()
	g = New(limits, log, registry)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	s := &http.Server{ConnState: g.ConnState, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, 64<<20))
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(g.Listen(l)) }()
	t.Cleanup(func() {
		check.OK(t, s.Close())
		check.Is(t, <-ended, http.ErrServerClosed)
		for end := time.Now().Add(10 * time.Second); g.Open() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d connections are open", g.Open())
			}
		}
		time.Sleep(2 * period) // the last sweep
	})
	return g, l.Addr().String(), registry
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// answered says whether a request over the connection gets its answer.
func answered(c net.Conn) bool {
	_, _ = io.WriteString(c, get)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	return err == nil && r.Body.Close() == nil
}

// What is new, active or idle for too long is closed, whatever it dribbles, and a client that asks now and
// then is not.
func TestSlowConnectionsEnd(t *testing.T) {
	const limit = 500 * time.Millisecond
	const body = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
	const large = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		limits     Limits
		sends      string
		afterwards string // again and again
		cut        float64
	}{
		"says nothing":              {Limits{100, limit, time.Hour, time.Hour}, "", "", 1},
		"a head that never ends":    {Limits{100, limit, time.Hour, time.Hour}, "GET / HTTP/1.1\r\nX: ", "x", 1},
		"idle":                      {Limits{100, time.Hour, limit, time.Hour}, get, "", 0},
		"a second head never ends":  {Limits{100, limit, time.Hour, time.Hour}, get + "GET / HTTP/1.1\r\nX: ", "x", 1},
		"a body that never ends":    {Limits{100, time.Hour, time.Hour, limit}, body, "x", 1},
		"the answer is never read":  {Limits{100, time.Hour, time.Hour, limit}, large, "", 1},
		"the answer is read slowly": {Limits{100, time.Hour, time.Hour, limit}, large, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, addr, registry := serve(t, c.limits, slog.New(slog.DiscardHandler))
			began := time.Now()
			conn := check.Dial(t, addr, c.sends)
			for g.Open() == 0 && time.Since(began) < 10*time.Second {
				time.Sleep(time.Millisecond)
			}
			for g.Open() > 0 && time.Since(began) < 10*time.Second {
				_, _ = io.WriteString(conn, c.afterwards)
				if strings.HasSuffix(name, "slowly") {
					_, _ = conn.Read(make([]byte, 1))
				}
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took < limit || took > 9*time.Second {
				t.Errorf("ended after %v", took)
			}
			check.Equal(t, check.Metrics(t, registry)["shardid_connections_cut_total"], c.cut, "cut")
		})
	}
	t.Run("asks now and then", func(t *testing.T) {
		t.Parallel()
		_, addr, _ := serve(t, Limits{100, limit, 2 * limit, limit}, slog.New(slog.DiscardHandler))
		conn := check.Dial(t, addr, "")
		for range 8 {
			if !answered(conn) {
				t.Fatal("a client that asks was closed")
			}
			time.Sleep(limit / 2)
		}
	})
}

// Beyond the bound the connection that has waited the longest gives way, and none that is being answered.
func TestTheLongestIdleGivesWay(t *testing.T) {
	var log bytes.Buffer
	g, addr, registry := serve(t, Limits{4, time.Hour, time.Hour, time.Hour}, slog.New(slog.NewTextHandler(&log, nil)))
	busy := check.Dial(t, addr, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
	_, _ = io.ReadFull(busy, make([]byte, 1))
	var crowd []net.Conn
	for i := range 3 { // the first asks once
		time.Sleep(2 * period)
		c := check.Dial(t, addr, "")
		if i == 0 && !answered(c) {
			t.Fatal("no answer")
		}
		crowd = append(crowd, c)
	}
	for g.Open() < 4 {
		time.Sleep(time.Millisecond)
	}
	for range 50 { // who comes is served, over and over
		if c := check.Dial(t, addr, ""); !answered(c) {
			t.Fatal("no answer beyond the bound")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i, c := range crowd {
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || strings.Contains(fmt.Sprint(err), "timeout") {
			t.Errorf("%d did not give way: %d bytes, %v", i, n, err)
		}
	}
	if n, err := io.CopyN(io.Discard, busy, 1<<20); err != nil {
		t.Errorf("the busy one was closed after %d bytes: %v", n, err)
	}
	for range 3 {
		c := check.Dial(t, addr, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
		_, _ = io.ReadFull(c, make([]byte, 1))
	}
	if answered(check.Dial(t, addr, "")) {
		t.Error("answered, though all are busy")
	}
	counted := check.Metrics(t, registry)
	if g.Open() != 4 || counted["shardid_connections_refused_total"] < 50 ||
		counted["shardid_connections_cut_total"] != 0 {
		t.Errorf("%d open, %v", g.Open(), counted)
	}
	check.Equal(t, strings.Count(log.String(), "raise server.max_connections"), 1, "warnings")
}

// short is a listener of a process that is out of descriptors at first.
type short struct {
	net.Listener
	left int
}

func (s *short) Accept() (net.Conn, error) {
	if s.left--; s.left >= 0 {
		return nil, syscall.EMFILE
	}
	return s.Listener.Accept()
}

// A connection that cannot be accepted is told once, and the next one is.
func TestFailureToAccept(t *testing.T) {
	var log bytes.Buffer
	g := New(Limits{9, time.Hour, time.Hour, time.Hour}, slog.New(slog.NewTextHandler(&log, nil)), nil)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	l := g.Listen(&short{inner, 2})
	check.Dial(t, l.Addr().String(), "")
	c, err := l.Accept()
	check.Must(t, err)
	check.OK(t, c.Close())
	check.Equal(t, strings.Count(log.String(), "a connection cannot be accepted"), 1, "lines")
	check.OK(t, l.Close())
	check.Is(t, check.Err(l.Accept()), net.ErrClosed)
	time.Sleep(2 * period) // the last sweep
}
