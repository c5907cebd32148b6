package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
)

// lessors answers /v1/leases/orders: one worker ID, 7.
type lessors struct {
	*httptest.Server
	hold time.Duration

	mu       sync.Mutex
	refuse   int // the code of the answer to everything; 0: none
	refusals int // so many answers to the next requests are that none is free
	lease    leased
	lastUsed int64 // of the last release; 0: none
}

func newLessors(t *testing.T, hold time.Duration) *lessors {
	s := &lessors{hold: hold, lease: leased{Name: "orders", WorkerID: 7, Secret: "s", Epoch: 1288834974657, WorkerBits: 10, SeqBits: 12, RenewMs: hold.Milliseconds() / 3}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *lessors) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// until is the end of the lease, in Unix ms.
func (s *lessors) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.UnixMilli(s.lease.Until)
}

func (s *lessors) released() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastUsed
}

func (s *lessors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := s.refuse
	if s.refusals > 0 {
		s.refusals--
		code = -8
	}
	status, ok := map[int]int{0: 200, -2: 404, -14: 409}[code]
	if !ok {
		status = http.StatusServiceUnavailable
	}
	body := map[string]any{"code": code, "message": "refused for a test"}
	var given struct{ Secret, LastUsed string }
	_ = json.NewDecoder(r.Body).Decode(&given)
	switch now := time.Now().UnixMilli(); {
	case code != 0:
	case r.Method == http.MethodDelete:
		s.lastUsed, _ = strconv.ParseInt(given.LastUsed, 10, 64)
	case strings.HasSuffix(r.URL.Path, "/orders") || given.Secret == s.lease.Secret:
		s.lease.Now, s.lease.Until = now, now+s.hold.Milliseconds()
		body["lease"] = s.lease
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// The exit status is the command's, what it needs is in its environment, and the lease is given
// back above what it may have used.
func TestLeaseCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("text", []byte("text"), 0o600))
	s := newLessors(t, time.Minute)
	sh := func(script string) []string { return []string{"--url", s.URL, "--", "sh", "-c", script} }
	for _, c := range []struct {
		args           []string
		exit           int
		stdout, stderr string
		leased         bool
	}{
		{sh("echo $SHARDID_WORKER_ID $SHARDID_EPOCH $SHARDID_WORKER_BITS $SHARDID_SEQ_BITS"), 0, "7 1288834974657 10 12\n", "", true},
		{sh("exit 7"), 7, "", "", true},
		{sh("kill -KILL $$"), 137, "", "", true},
		{[]string{"--url", "http://127.0.0.1:1," + s.URL, "echo", "--name", "x"}, 0, "--name x\n", "", true},
		{[]string{"--url", s.URL, "--", "no-such-command"}, 127, "", "shardid: no-such-command: executable file not found in $PATH\n", false},
		{[]string{"--url", s.URL, "--", "./none"}, 127, "", "shardid: ./none: ", false},
		{[]string{"--url", s.URL, "--", "./text"}, 126, "", "shardid: ./text: permission denied\n", false},
		{[]string{"--url", s.URL}, 2, "", "requires at least 1 arg", false},
		{[]string{"--url", "localhost", "true"}, 2, "", "is no URL", false},
		{[]string{"--url", s.URL, "--instance", "a\nb", "true"}, 2, "", "instance needs", false},
		{[]string{"--url", s.URL, "--name", "a/b", "true"}, 2, "", "a name has", false},
		{[]string{"--url", "http://127.0.0.1:1", "--wait", "100ms", "true"}, 1, "", "no worker ID within --wait 100ms: ", false},
	} {
		s.set(func() { s.lastUsed = 0 })
		began := time.Now()
		exit, stdout, stderr := try(t, append([]string{"lease", "--name", "orders"}, c.args...)...)
		if exit != c.exit || stdout != c.stdout || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("%q: exit %d, %q, %q; want %+v", c.args, exit, stdout, stderr, c)
		}
		last := time.UnixMilli(s.released())
		if c.leased != (s.released() > 0) || c.leased && (last.Before(began.Add(leaseEdge).Truncate(time.Millisecond)) || last.After(time.Now().Add(leaseEdge))) {
			t.Errorf("%q: released above %v", c.args, last)
		}
	}
}

// While no worker ID is free, or no server answers, it says so and tries again; what no server
// would grant ends it.
func TestLeaseWaitsForAWorkerID(t *testing.T) {
	s := newLessors(t, time.Minute)
	s.set(func() { s.refusals = 2 })
	exit, stdout, stderr := try(t, "lease", "--name", "orders", "--url", s.URL, "--", "echo", "here")
	if exit != 0 || stdout != "here\n" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no worker ID yet, trying again for up to 1m0s: ") {
		t.Errorf("exit %d, %q, %q", exit, stdout, stderr)
	}
	s.set(func() { s.refuse = -2 })
	if exit, _, stderr := try(t, "lease", "--name", "orders", "--url", s.URL, "--", "echo"); exit != 1 || !strings.Contains(stderr, "answers 404: refused for a test") {
		t.Errorf("exit %d, %q", exit, stderr)
	}
}

// A command is started a second after what earlier holders may have used, with the lease renewed
// meanwhile; not when the clock is wrong.
func TestLeaseWaitsForItsTime(t *testing.T) {
	s := newLessors(t, 6*time.Second)
	after := time.Now().Add(2500 * time.Millisecond)
	s.set(func() { s.lease.After = after.UnixMilli() })
	exit, stdout, stderr := try(t, "lease", "--name", "orders", "--url", s.URL, "--", "date", "+%s%N")
	began, err := strconv.ParseInt(strings.TrimSpace(stdout), 10, 64)
	if exit != 0 || err != nil || began < after.Add(leaseEdge).Truncate(time.Millisecond).UnixNano() || !strings.Contains(stderr, "waiting for ") {
		t.Errorf("exit %d, %q, %q, want after %d", exit, stdout, stderr, after.UnixNano())
	}
	now, hour := time.Now().UnixMilli(), time.Hour.Milliseconds()
	for _, l := range []leased{
		{Secret: "s", After: now + hour, Until: now + 2*hour, RenewMs: 1000}, // the clock is behind
		{Secret: "s", After: now - 2*hour, Until: now - hour, RenewMs: 1000}, // or ahead
	} {
		if err := (&holder{lease: l}).startInTime(); err == nil || !strings.HasPrefix(err.Error(), "set the clock of this machine") {
			t.Error(err)
		}
	}
}

// A clock that is set ends the command: back to the times of others, or forward past the end.
func TestLeaseCommandEndsWithTheClock(t *testing.T) {
	for name, spoil := range map[string]func(*holder){
		"set back":    func(h *holder) { h.lease.After = time.Now().Add(time.Hour).UnixMilli() },
		"set forward": func(h *holder) { h.ahead += time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLessors(t, time.Minute)
			h := &holder{ask: asking{url: s.URL, timeout: time.Minute}, name: "orders", wait: time.Minute}
			check.Must(t, h.resolveReplicas())
			var err error
			h.lease, err = h.acquire(t.Context())
			check.Must(t, err)
			h.command = exec.CommandContext(t.Context(), "sleep", "60")
			h.command.SysProcAttr = ownGroup()
			check.Must(t, h.startInTime())
			h.endInTime()
			if !h.killAt.IsZero() {
				t.Fatal("it is ended without a cause")
			}
			spoil(h)
			h.endInTime()
			<-h.ended
			if status := h.status(); h.killAt.IsZero() || status == nil {
				t.Error(status)
			}
		})
	}
}

// Another replica is asked where one may answer otherwise: it is away, busy, or of an older version.
func TestLeaseFinalAnswers(t *testing.T) {
	for _, c := range []struct {
		refusedError
		final bool
	}{
		{refusedError{status: 404, code: -2}, true},
		{refusedError{status: 409, code: -14}, true},
		{refusedError{status: 404, code: -10}, false},
		{refusedError{status: 429, code: -12}, false},
		{refusedError{status: 503, code: -8}, false},
		{refusedError{status: 200}, false}, // no shardid
	} {
		check.Equal(t, isFinal(&c.refusedError), c.final, c.status, c.code)
	}
}
