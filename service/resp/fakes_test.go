package resp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/issuer"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// start serves modes that count together, until the test ends; change sets options.
func start(t *testing.T, f *fakes.Mode, change func(*Options)) (s *Server, addr string) {
	t.Helper()
	return startOn(t, func(l net.Listener) net.Listener { return l }, f, change)
}

// startOn is start with a listener that is wrapped.
func startOn(t *testing.T, wrap func(net.Listener) net.Listener, f *fakes.Mode, change func(*Options)) (
	s *Server, addr string,
) {
	t.Helper()
	modes := issuer.Issuer{Queue: fakes.Queue{Mode: f}, Segment: fakes.Segment{Mode: f},
		Snowflake: fakes.Generator{Mode: f}, Sequence: &fakes.Sequence{Mode: f}}
	opts := Options{Issuer: &modes, Log: slog.New(slog.DiscardHandler), Version: "1.2.3"}
	if change != nil {
		change(&opts)
	}
	s = New(opts)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(wrap(listener)) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, listener.Addr().String()
}

// dial opens a connection, which lasts as long as the test, and sends text. The server may
// close it before it has read all.
func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	check.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, text)
	return c
}

// exchange sends text over a new connection and reads what comes until the server closes
// it or so many bytes have come.
func exchange(t *testing.T, addr, text string, want int) string {
	t.Helper()
	c := dial(t, addr, text)
	defer c.Close()
	got, err := io.ReadAll(io.LimitReader(c, int64(want)))
	check.OK(t, err, "exchange:", string(got))
	return string(got)
}

// guarded requires the tokens of fakes.Guard.
func guarded(entries ...string) func(*Options) {
	return func(o *Options) { o.Access, o.RequireToken = fakes.Guard("", entries...), true }
}
