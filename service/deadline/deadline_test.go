package deadline

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a listener of connections in memory, whose deadlines follow the clock
// of a bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) { return <-p, nil }
func (p pipes) Close() error              { return nil }
func (p pipes) Addr() net.Addr            { return nil }

// counted counts what reaches the connection itself.
type counted struct {
	net.Conn
	reads, deadlines atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(b)
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}

// limit is that of one call in these tests.
const limit = time.Hour

// inBubble runs a test with both ends of a connection.
func inBubble(t *testing.T, test func(t *testing.T, l *Listener, c net.Conn, inner *counted, client net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		inner := &counted{Conn: server}
		accepted := make(pipes, 1)
		accepted <- inner
		l := Listen(accepted, Limits{Read: limit, Write: limit})
		time.Sleep(time.Second) // past what net/http takes for long ago, as in a real process
		c, err := l.Accept()
		check.Must(t, err)
		ConnState(c, http.StateActive) // as while a handler runs
		test(t, l, c, inner, client)
		ConnState(c, http.StateClosed)
		_ = c.Close()
		_ = client.Close()
		time.Sleep(2 * Period) // the last sweep
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.sweeping || len(l.conns) != 0 {
			t.Errorf("a sweep is due for %d connections", len(l.conns))
		}
	})
}

func wantTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is no timeout", err)
	}
}

// begin calls f in the background, and ends once f waits.
func begin(f func() error) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- f() }()
	synctest.Wait()
	return ended
}

func read(c net.Conn, n int) func() error {
	return func() error {
		_, err := c.Read(make([]byte, n))
		return err
	}
}

// A deadline ends a call at most Period late, and never early, whatever it was
// moved from.
func TestDeadlineEndsCalls(t *testing.T) {
	const after = 3 * time.Second
	for name, test := range map[string]struct {
		set  func(net.Conn, time.Time) error
		call func(net.Conn) func() error
	}{
		"read":              {net.Conn.SetReadDeadline, func(c net.Conn) func() error { return read(c, 100) }},
		"read of one byte":  {net.Conn.SetReadDeadline, func(c net.Conn) func() error { return read(c, 1) }},
		"write":             {net.Conn.SetWriteDeadline, func(c net.Conn) func() error { return func() error { _, err := c.Write([]byte("x")); return err } }},
		"read, both sides":  {net.Conn.SetDeadline, func(c net.Conn) func() error { return read(c, 100) }},
		"write, both sides": {net.Conn.SetDeadline, func(c net.Conn) func() error { return func() error { _, err := c.Write([]byte("x")); return err } }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, _ *counted, _ net.Conn) {
				began := time.Now()
				for _, d := range []time.Duration{Period, limit / 2, after} {
					_ = test.set(c, began.Add(d))
				}
				wantTimeout(t, <-begin(test.call(c)))
				if took := time.Since(began); took < after || took > after+Period {
					t.Errorf("ended after %v", took)
				}
				wantTimeout(t, <-begin(test.call(c))) // and so does the next
			})
		})
	}
}

// A call without a deadline ends at the limit, however much went on before it, and
// not when the limit is over since the last call.
func TestLimitEndsACall(t *testing.T) {
	calls := map[string]func(net.Conn) func() error{
		"read":  func(c net.Conn) func() error { return read(c, 100) },
		"write": func(c net.Conn) func() error { return func() error { _, err := c.Write([]byte("x")); return err } },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, _ *counted, client net.Conn) {
				for range 3 {
					ended := begin(read(c, 100))
					time.Sleep(limit - 2*Period)
					_, _ = client.Write([]byte("y"))
					check.Must(t, <-ended)
				}
				time.Sleep(2 * limit)
				began := time.Now()
				wantTimeout(t, <-begin(call(c)))
				if took := time.Since(began); took < limit || took > limit+3*Period {
					t.Errorf("ended after %v", took)
				}
			})
		})
	}
}

// A handler may take longer than the limit, and is told of its client all the while.
func TestAWatchHasNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, _ *counted, client net.Conn) {
		ended := begin(read(c, 1))
		time.Sleep(3 * limit)
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		_ = client.Close()
		check.Is(t, <-ended, io.EOF)
	})
}

// While no handler runs, a read of one byte is no watch: it is what is left of a buffer.
func TestAReadOfOneByteHasALimit(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, inner *counted, _ net.Conn) {
		ConnState(c, http.StateIdle)
		began := time.Now()
		ended := begin(read(c, 1))
		check.Equal(t, inner.reads.Load(), 1, "reads at once:")
		wantTimeout(t, <-ended)
		if took := time.Since(began); took < limit || took > limit+3*Period {
			t.Errorf("ended after %v", took)
		}
	})
}

// net/http ends the read that watches the client with a deadline long ago, before
// or after it began, and reads on afterwards.
func TestLongAgoCountsAtOnce(t *testing.T) {
	for _, n := range []int{1, 100} {
		inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, _ *counted, client net.Conn) {
			began := time.Now()
			ended := begin(read(c, n))
			_ = c.SetReadDeadline(time.Unix(1, 0))
			wantTimeout(t, <-ended)
			wantTimeout(t, <-begin(read(c, n)))
			check.Equal(t, time.Since(began), 0, n, "bytes: after")
			_ = c.SetReadDeadline(time.Time{})
			ended = begin(read(c, n))
			check.OK(t, check.Err(client.Write([]byte("y"))))
			check.OK(t, <-ended, n, "bytes, afterwards")
		})
	}
}

// What makes a request cheap: a short watch of the client, and deadlines that do
// not pass, reach the connection never.
func TestWatchCostsNothing(t *testing.T) {
	inBubble(t, func(_ *testing.T, _ *Listener, c net.Conn, inner *counted, _ net.Conn) {
		for range 1000 {
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			ended := begin(read(c, 1))
			_ = c.SetReadDeadline(time.Unix(1, 0))
			wantTimeout(t, <-ended)
			_ = c.SetReadDeadline(time.Time{})
		}
		if r, d := inner.reads.Load(), inner.deadlines.Load(); r != 0 || d != 0 {
			t.Errorf("%d reads and %d deadlines", r, d)
		}
	})
}

// A watch that lasts sees what the client does.
func TestWatchSeesTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, _ *counted, client net.Conn) {
		began := time.Now()
		ended := begin(read(c, 1))
		_ = client.Close()
		if err := <-ended; !errors.Is(err, io.EOF) || time.Since(began) > Period {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A call and a deadline that passes at the same time: the call fails, or the connection itself ends
// it.
func TestDeadlineMeetsACall(t *testing.T) {
	const rounds = 100_000
	var calls, moves atomic.Int64 // rounds that each of the two has reached
	meet := func(mine, other *atomic.Int64, round int64) {
		for mine.Store(round); other.Load() < round; {
			runtime.Gosched()
		}
	}
	sides := make([]side, rounds)
	errs := make([]error, rounds)
	var calling sync.WaitGroup
	calling.Go(func() {
		for i := range sides {
			meet(&calls, &moves, int64(i)+1)
			errs[i] = sides[i].begin()
		}
	})
	for i := range sides {
		s := &sides[i]
		s.open(func(time.Time) error { return nil }, 0)
		began := time.Now()
		meet(&moves, &calls, int64(i)+1)
		check.Must(t, s.move(longAgo(), began))
	}
	calling.Wait()
	for i := range sides {
		if errs[i] == nil && !sides[i].applied {
			t.Fatalf("call %d goes on, and the connection has no deadline", i)
		}
	}
}

// A close ends every call, and one after it does not wait for a sweep, as there is
// none for it.
func TestCloseEndsCalls(t *testing.T) {
	for _, n := range []int{1, 100} {
		inBubble(t, func(t *testing.T, _ *Listener, c net.Conn, _ *counted, _ net.Conn) {
			ended := begin(read(c, n))
			_ = c.Close()
			for range 2 {
				check.Is(t, <-ended, io.ErrClosedPipe, n, "bytes")
				ended = begin(read(c, n))
			}
			if err := <-ended; err == nil {
				t.Error("a read of what is closed")
			}
		})
	}
}

const headTimeout = 300 * time.Millisecond

// serve runs a server as the service does, on the loopback.
func serve(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	server := &http.Server{Handler: h, ReadHeaderTimeout: headTimeout, ReadTimeout: time.Minute, IdleTimeout: -1, ConnState: ConnState}
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
