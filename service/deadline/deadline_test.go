package deadline

import (
	"errors"
	"io"
	"net"
	"os"
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
		test(t, l, c, inner, client)
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
