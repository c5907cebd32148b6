//go:build unix

package e2e_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestE2EDrains: after SIGTERM /readyz says so at once, IDs are served for the
// whole delay, and the process ends well.
func TestE2EDrains(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "1s"}, "--demo")
	d.ready()
	var closing atomic.Bool
	l := &load{replicas: []*daemon{d}, apps: []int64{1}, books: &ledger{},
		trouble: func(_ answer, err error) bool { return err != nil && closing.Load() }}
	l.start(t, 8)
	l.reach(t, 1000)

	d.Signal(syscall.SIGTERM)
	begun := time.Now()
	eventually(t, 700*time.Millisecond, "/readyz turns", func() bool { return d.get("/readyz").status == 503 })
	if a := d.get("/readyz"); !strings.Contains(a.Message, "shutting down") {
		t.Errorf("/readyz: %s", a.body)
	}
	d.want("/livez", 200, 0)
	issued := l.books.Count()
	time.Sleep(max(0, 800*time.Millisecond-time.Since(begun)))
	closing.Store(true)
	if n := l.books.Count(); n <= issued {
		t.Errorf("nothing was issued while draining: %d, %d", issued, n)
	}
	if code := d.Exit(15 * time.Second); code != 0 || time.Since(begun) < time.Second {
		t.Errorf("exit %d after %v", code, time.Since(begun))
	}
	t.Logf("ended %v after SIGTERM", time.Since(begun).Round(time.Millisecond))
	l.stop()
	l.books.Settle(t)
	wantStopped(t, d)
}

// TestE2EStopsOnHalfABody: clients that never end what they began to send do not hold a
// stop up, and the others are told to connect elsewhere.
func TestE2EStopsOnHalfABody(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "1s", "SERVER_ADMIN_TOKEN": "open-sesame-open-sesame"}, "--demo")
	d.ready()
	for _, head := range []string{"GET " + aliceGet, "POST /admin/apps"} {
		dial(t, d.url, head+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open-sesame-open-sesame\r\nContent-Length: 100\r\n\r\n{")
	}
	if a := d.want(aliceGet, 200, 0); a.closes {
		t.Error("the connection is closed while nothing stops")
	}
	d.Signal(syscall.SIGTERM)
	begun := time.Now()
	eventually(t, 900*time.Millisecond, "draining answers close their connection", func() bool { return d.want(aliceGet, 200, 0).closes })
	code := d.Exit(20 * time.Second)
	if took := time.Since(begun); code != 0 || took > 8*time.Second {
		t.Errorf("exit %d after %v", code, took)
	}
	wantStopped(t, d)
}

// TestE2EInterrupt: Ctrl-C waits for no load balancer.
func TestE2EInterrupt(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "14s"}, "--demo")
	eventually(t, startLimit, "served", func() bool { return d.get(aliceGet).status == 200 })
	d.stops(syscall.SIGINT, 10*time.Second)
	wantStopped(t, d)
}

// TestE2ESecondSignalKills: an operator who does not want to wait need not.
func TestE2ESecondSignalKills(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "14s"}, "--demo")
	d.Signal(syscall.SIGTERM)
	eventually(t, 10*time.Second, "draining", func() bool { return len(d.Lines("draining")) == 1 })
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(10 * time.Second); code == 0 {
		t.Error("exit 0 of a process that was killed")
	}
}

// TestE2EDrainsWaitingRequest: a request that waits for a refill when SIGTERM
// comes gets IDs or a refusal that says to try elsewhere.
func TestE2EDrainsWaitingRequest(t *testing.T) {
	check.Deep(t)
	story(t)
	for name, back := range map[string]bool{"the database comes back": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drainWaiting(t, back)
		})
	}
}

func drainWaiting(t *testing.T, back bool) {
	s, books := privateStores(t), &ledger{}
	d := serve(t, s.settings().With(settings{"QUEUE_TIMEOUT": "4s", "SERVER_DRAIN_DELAY": "1s", "SERVER_SHUTDOWN_TIMEOUT": "10s"}))
	eventually(t, startLimit, "served", func() bool { return batch(d, books, "alice", 100).status == 200 })
	eventually(t, startLimit, "every mode serves", func() bool { return d.get("/healthz").status == 200 })
	s.db.Pause()
	type result struct {
		answer
		err error
	}
	waiting := make(chan result, 1)
	go func() {
		a, err := d.do(http.MethodGet, aliceGet+"&count=5000") // more than the list holds
		waiting <- result{a, err}
	}()
	time.Sleep(500 * time.Millisecond)
	d.Signal(syscall.SIGTERM)
	begun := time.Now()
	if back {
		s.db.Resume()
	}
	a := <-waiting
	if back && a.status != 200 || !back && !comeAgain(a.answer) || a.err != nil {
		t.Errorf("%v: %d %.300s", a.err, a.status, a.body)
	}
	if code := d.Exit(12 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
	t.Logf("answer %d after %v, ended %v after SIGTERM", a.status, a.took.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	wantStopped(t, d)
	s.db.Resume()
}

func wantStopped(t *testing.T, d *daemon) {
	t.Helper()
	if len(d.Lines(`"msg":"stopped"`)) != 1 || len(d.Lines(`"level":"ERROR"`, "panic")) != 0 {
		t.Errorf("log:\n%s", d.Output())
	}
}
