package resp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
	"shardid/service/issuer"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake issues 1, 2, 3… for every mode, or fails.
type fake struct {
	last  atomic.Int64
	calls atomic.Int64 // that have begun
	err   atomic.Pointer[error]
	wait  chan struct{} // nil: do not wait
}

func (f *fake) take(ctx context.Context, count int, dst []int64) ([]int64, error) {
	f.calls.Add(1)
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return dst, ctx.Err()
		}
	}
	if err := f.err.Load(); err != nil {
		return dst, *err
	}
	for last := f.last.Add(int64(count)); count > 0; count-- {
		dst = append(dst, last-int64(count)+1)
	}
	return dst, nil
}

type fakeQueue struct{ *fake }

func (f fakeQueue) Next(ctx context.Context, _ int, gatePass string, count int, dst []int64) ([]int64, error) {
	if err := idtext.CheckGatePass(gatePass); err != nil {
		return dst, err
	}
	return f.take(ctx, count, dst)
}

type fakeSegment struct{ *fake }

// Numbers issues the texts of a tag with a pattern.
func (f fakeSegment) Numbers(ctx context.Context, _ string, count int, dst []string) ([]string, error) {
	ids, err := f.take(ctx, count, nil)
	for _, id := range ids {
		dst = append(dst, fmt.Sprintf("no %d", id))
	}
	return dst, err
}

func (f fakeSegment) Next(ctx context.Context, tag string, count int, dst []int64) ([]int64, error) {
	if tag == "numbers" {
		return dst, model.ErrPattern
	}
	return f.take(ctx, count, dst)
}

// Run has no command.
func (f fakeSegment) Run(context.Context, string) (first, last int64, err error) {
	panic("a run was asked for")
}

type fakeGenerator struct{ *fake }

func (f fakeGenerator) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	return f.take(ctx, count, dst)
}

// fakeSequence counts by space and key, fails for the key "bad", and notes how many asks came at once.
type fakeSequence struct {
	*fake
	mu    sync.Mutex
	of    map[[2]string]int64
	calls []int
}

func (f *fakeSequence) Ask(ctx context.Context, asks []*model.SequenceAsk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, len(asks))
	for _, ask := range asks {
		at := [2]string{ask.Space, ask.Key}
		switch _, err := f.take(ctx, int(ask.Count), nil); {
		case ask.Space == "x":
			ask.Err = fmt.Errorf("%w: %q", model.ErrUnknownSpace, ask.Space)
		case ask.Key == "bad":
			ask.Err = model.ErrNoNumber
		case err != nil:
			ask.Err = err
		default:
			f.of[at] += ask.Count
			ask.Last = f.of[at]
		}
	}
}

func newFakeSequence(f *fake) *fakeSequence {
	return &fakeSequence{fake: f, of: map[[2]string]int64{}}
}

func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// start serves f until the test ends; change sets options.
func start(t *testing.T, f *fake, change func(*Options)) (s *Server, addr string) {
	t.Helper()
	return startOn(t, func(l net.Listener) net.Listener { return l }, f, change)
}

// startOn is start with a listener that is wrapped.
func startOn(t *testing.T, wrap func(net.Listener) net.Listener, f *fake, change func(*Options)) (
	s *Server, addr string,
) {
	t.Helper()
	modes := issuer.Issuer{Queue: fakeQueue{f}, Segment: fakeSegment{f}, Snowflake: fakeGenerator{f},
		Sequence: newFakeSequence(f)}
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

// guarded requires the tokens of a file; each entry is a token, and what it may do. The name
// is what comes before the first hyphen.
func guarded(t *testing.T, entries ...[2]string) func(*Options) {
	t.Helper()
	var text strings.Builder
	for _, e := range entries {
		name, _, _ := strings.Cut(e[0], "-")
		fmt.Fprintf(&text, "- {name: %s, sha256: '%x', %s}\n", name, sha256.Sum256([]byte(e[0])), e[1])
	}
	now, file := time.Now(), filepath.Join(t.TempDir(), "tokens.yaml") // the clock stands, so that no quota fills again
	check.Must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	guard, err := access.NewGuard(access.Options{File: file, Now: func() time.Time { return now }})
	check.Must(t, err)
	return func(o *Options) { o.Access, o.RequireToken = guard, true }
}
