package resp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/issuer"
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

// exchange sends text over a new connection and reads what comes until the server closes
// it or so many bytes have come.
func exchange(t *testing.T, addr, text string, want int) string {
	t.Helper()
	c := check.Dial(t, addr, text)
	defer c.Close()
	got, err := io.ReadAll(io.LimitReader(c, int64(want)))
	check.OK(t, err, "exchange:", string(got))
	return string(got)
}

// guarded requires the tokens of fakes.Guard.
func guarded(entries ...string) func(*Options) {
	return func(o *Options) { o.Access, o.RequireToken = fakes.Guard("", entries...), true }
}

// endless is a client that sends the same commands over and over and takes every answer.
type endless struct {
	net.Conn
	text string
	left int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.left--; e.left < 0 {
		return 0, io.EOF
	}
	return copy(b, e.text), nil
}

func (e *endless) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkCommands is what a command costs, without the network.
func BenchmarkCommands(b *testing.B) {
	for name, test := range map[string]struct {
		command []string
		times   int
	}{
		"INCR":           {[]string{"INCR", "snowflake"}, 1},
		"INCR_pipelined": {[]string{"INCR", "snowflake"}, 16},
		"LPOP_100":       {[]string{"LPOP", "snowflake", "100"}, 1},
	} {
		b.Run(name, func(b *testing.B) {
			s := New(Options{Log: slog.New(slog.DiscardHandler), Issuer: &issuer.Issuer{
				Snowflake: fakes.Generator{Mode: &fakes.Mode{}}, Traffic: issuer.NewTraffic(nil, model.ModeSnowflake),
			}})
			text := strings.Repeat(encode(test.command...), test.times)
			c := &conn{Conn: &endless{text: text, left: b.N/test.times + 1}, server: s}
			c.in.from, c.in.beforeRead = c.Conn, c.beforeRead
			b.ReportAllocs()
			b.ResetTimer()
			c.serve()
		})
	}
}
