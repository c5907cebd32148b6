//go:build unix

package e2e_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patchLog changes the level as an operator does.
func patchLog(t *testing.T, d *daemon, token, body string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodPatch, d.url+"/admin/log", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := d.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	a.status, a.header = resp.StatusCode, resp.Header
	return a
}

// refusedLines are the lines of level debug about requests that were refused.
func refusedLines(d *daemon) int { return len(d.Lines(`"level":"DEBUG"`, "request refused")) }

// TestE2ELogLevel: an operator sees what is refused for a while, by HTTP or by a
// signal, and the log is as before afterwards.
func TestE2ELogLevel(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": "sesame-sesame-sesame"}, "--demo")
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	refuse := func() { d.want("/get?appId=1", 400, -6) }
	refuse()
	if n := refusedLines(d); n != 0 {
		t.Fatalf("%d lines at level info", n)
	}
	if a := patchLog(t, d, "guess", `{"level":"debug"}`); a.status != 401 {
		t.Errorf("wrong token: %d", a.status)
	}
	if a := patchLog(t, d, "sesame-sesame-sesame", `{"level":"debug","for":"2s"}`); a.status != 200 {
		t.Fatalf("%d %+v", a.status, a)
	}
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
	if strings.Contains(d.Output(), "sesame-sesame-sesame") {
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

// TestE2EAccessLog: each request has a line that names it and tells nothing of whom
// it was for; without log.access there is none.
func TestE2EAccessLog(t *testing.T) {
	story(t)
	for mode, want := range map[string][3]int{"": {0, 0, 0}, "errors": {0, 1, 1}, "all": {1, 1, 1}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := settings{}
			if mode != "" {
				s["LOG_ACCESS"] = mode
			}
			d := serve(t, s, "--demo")
			eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
			for i, target := range []string{"/get?appId=1&gatePass=someone%40example.com", "/get?appId=2&gatePass=someone%40example.com", "/no/someone"} {
				id := "request-" + mode + string(rune('a'+i))
				a, err := d.do(http.MethodGet, target, "X-Request-Id", id)
				if err != nil || a.header.Get("X-Request-Id") != id {
					t.Errorf("%s: %v %v", target, err, a.header)
				}
				if n := len(d.Lines(`"msg":"request"`, `"request_id":"`+id+`"`)); n != want[i] {
					t.Errorf("%s: %d lines, want %d", target, n, want[i])
				}
			}
			if strings.Contains(d.Output(), "example.com") {
				t.Error("a gatePass is in the log")
			}
		})
	}
}
