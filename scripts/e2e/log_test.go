//go:build unix

package e2e_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// refusedLines are the lines of level debug about requests that were refused.
func refusedLines(d *daemon) int { return len(d.Lines(`"level":"DEBUG"`, "request refused")) }

// TestE2ELogLevel: an operator sees what is refused for a while, by HTTP or by a
// signal, and the log is as before afterwards.
func TestE2ELogLevel(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": adminToken}, "--demo")
	d.ready()
	refuse := func() { d.want("/get?appId=1", 400, -6) }
	refuse()
	if n := refusedLines(d); n != 0 {
		t.Fatalf("%d lines at level info", n)
	}
	if a, err := d.do(http.MethodPatch, "/admin/log", "Authorization", "Bearer guess"); err != nil || a.status != 401 {
		t.Errorf("wrong token: %d, %v", a.status, err)
	}
	d.wantAdmin(200, http.MethodPatch, "/admin/log", `{"level":"debug","for":"2s"}`)
	refuse()
	if n := refusedLines(d); n != 1 {
		t.Errorf("%d lines at level debug", n)
	}
	if lines := d.Lines("log level changed", `"by":"admin"`, `"for":"2s"`, `"request_id":"`); len(lines) != 1 {
		t.Errorf("the change is in %d lines", len(lines))
	}
	eventually(t, 10*time.Second, "the level goes back", func() bool { return len(d.Lines("log level is as configured again")) == 1 })
	n := refusedLines(d)
	refuse()
	if refusedLines(d) != n {
		t.Error("still at level debug")
	}
	toggleBySignal(t, d, refuse)
	if strings.Contains(d.Output(), adminToken) {
		t.Error("the token is in the log")
	}
}

// toggleBySignal sends SIGUSR1 twice.
func toggleBySignal(t *testing.T, d *daemon, refuse func()) {
	t.Helper()
	const by = `"by":"user defined signal 1"`
	d.Signal(syscall.SIGUSR1)
	eventually(t, 10*time.Second, "debug", func() bool { return len(d.Lines("log level changed", by, `"level":"debug"`, `"for":"10m0s"`)) == 1 })
	n := refusedLines(d)
	refuse()
	if refusedLines(d) != n+1 {
		t.Error("the signal did nothing")
	}
	d.Signal(syscall.SIGUSR1)
	eventually(t, 10*time.Second, "info", func() bool { return len(d.Lines("log level changed", by, `"level":"info"`)) == 1 })
}

// TestE2ESignalWhileStopping: a signal that comes late kills nobody.
func TestE2ESignalWhileStopping(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "1s"}, "--demo")
	d.Signal(syscall.SIGTERM)
	for !d.Gone() {
		_ = d.Cmd.Process.Signal(syscall.SIGUSR1) // it may be gone by now
		time.Sleep(5 * time.Millisecond)
	}
	if code := d.Exit(10 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
	wantStopped(t, d)
}
