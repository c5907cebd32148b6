//go:build unix

// A replica is stopped: its callers lose nothing, and its operator need not wait.

package stories_test

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestDrains: after SIGTERM /readyz says so at once, IDs are served for the whole delay by answers that close
// their connections, and the process ends well. Clients that never end what they began to send hold nothing up.
func TestDrains(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "1s"}, "--demo")
	d.ready()
	dial(t, d.url, "GET "+aliceGet+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	if a := d.want(aliceGet, 200, 0); a.closes {
		t.Error("an answer closes its connection while nothing stops")
	}
	var stopping atomic.Bool
	l := &load{replicas: []*daemon{d}, apps: []int64{1}, books: &ledger{},
		trouble: func(_ answer, err error) bool { return err != nil && stopping.Load() }}
	l.start(t, 8)
	l.reach(t, 1000)
	d.Signal(syscall.SIGTERM)
	begun := time.Now()
	var a answer
	eventually(t, startLimit, "/readyz turns", func() bool { a = d.get("/readyz"); return a.status == 503 })
	if !strings.Contains(a.Message, "shutting down") || !a.closes {
		t.Errorf("/readyz while it drains: %s, closes its connection: %t", a.body, a.closes)
	}
	issued := l.books.Count()
	time.Sleep(time.Until(begun.Add(800 * time.Millisecond))) // of the delay of a second
	stopping.Store(true)
	if n := l.books.Count(); n <= issued {
		t.Errorf("%d IDs were issued while draining, want more than none", n-issued)
	}
	wantStopped(t, d)
	l.stop()
	l.books.Settle(t)
}

// TestStopsAtOnce: Ctrl-C waits for no load balancer, and a second signal for nothing.
func TestStopsAtOnce(t *testing.T) {
	story(t)
	const never = "14s" // longer than a test waits for the end
	d := serve(t, settings{"SERVER_DRAIN_DELAY": never}, "--demo")
	d.ready()
	d.Signal(syscall.SIGINT)
	wantStopped(t, d)

	d = serve(t, settings{"SERVER_DRAIN_DELAY": never}, "--demo")
	d.Signal(syscall.SIGTERM)
	eventually(t, startLimit, "draining", func() bool { return len(d.Lines("draining")) == 1 })
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(10 * time.Second); code == 0 {
		t.Error("exit 0 of a process that was killed")
	}
}

// wantStopped waits for the end, which the log tells, and for nothing worse.
func wantStopped(t *testing.T, d *daemon) {
	t.Helper()
	if code := d.Exit(12 * time.Second); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if len(d.Lines(`"msg":"stopped"`)) != 1 || len(d.Lines(`"level":"ERROR"`, "panic")) != 0 {
		t.Errorf("the log does not tell of an orderly end:\n%s", d.Output())
	}
}
