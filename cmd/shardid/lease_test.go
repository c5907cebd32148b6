package main

import (
	"encoding/json"
	"fmt"
	"io"
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
	hold     time.Duration
	refuse   int // the code of the answer to everything; 0: none
	renewals int // likewise of answers to renewals

	mu       sync.Mutex // guards what follows
	first    []int      // the codes of the answers that are still to come before any other
	lease    leased
	lastUsed int64 // of the last release; 0: none
}

// ofProxy stands for a 404 of a proxy, which has no code.
const ofProxy = 404

// silent stands for a request that is not answered.
const silent = 1

func newLessors(t *testing.T, s *lessors) *lessors {
	t.Helper()
	if s.hold == 0 {
		s.hold = time.Minute
	}
	s.lease.Name, s.lease.WorkerID, s.lease.Secret = "orders", 7, "s"
	s.lease.Epoch, s.lease.WorkerBits, s.lease.SeqBits = 1288834974657, 10, 12
	s.lease.RenewMs = s.hold.Milliseconds() / 3
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *lessors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, isRenewal := s.refuse, strings.HasSuffix(r.URL.Path, "/renew")
	if isRenewal && code == 0 {
		code = s.renewals
	}
	if len(s.first) > 0 {
		code, s.first = s.first[0], s.first[1:]
	}
	status, ok := map[int]int{0: 200, -2: 404, -12: 429, -14: 409, ofProxy: 404}[code]
	if !ok {
		status = http.StatusServiceUnavailable
	}
	body := map[string]any{"code": code, "message": "refused for a test"}
	if code == ofProxy {
		delete(body, "code")
	}
	var given struct{ Secret, LastUsed string }
	_ = json.NewDecoder(r.Body).Decode(&given)
	if code == silent {
		_, _ = io.Copy(io.Discard, r.Body) // what is read to its end is told when its caller has gone
		<-r.Context().Done()
	}
	switch now := time.Now().UnixMilli(); {
	case code != 0:
	case r.Method == http.MethodDelete:
		s.lastUsed, _ = strconv.ParseInt(given.LastUsed, 10, 64)
	case !isRenewal || given.Secret == s.lease.Secret:
		s.lease.Now, s.lease.Until = now, now+s.hold.Milliseconds()
		body["lease"] = s.lease
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// The exit status is the command's, what it needs is in its environment, signals reach it, and the lease is given back
// above what it may have used.
func TestLeaseCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("text", []byte("text"), 0o600))
	s := newLessors(t, &lessors{})
	sh := func(script string) []string { return []string{"--url", s.URL, "--", "sh", "-c", script} }
	for _, c := range []struct {
		args           []string
		exit           int
		stdout, stderr string
		leased         bool
	}{
		{sh("echo $SHARDID_WORKER_ID $SHARDID_EPOCH $SHARDID_WORKER_BITS $SHARDID_SEQ_BITS"), 0,
			"7 1288834974657 10 12\n", "", true},
		{sh("exit 7"), 7, "", "", true},
		{sh("kill -KILL $$"), 137, "", "", true},
		{sh(`exec 2>/dev/null; trap "exit 3" TERM; kill -TERM $PPID; while :; do sleep 0.05; done`), 3, "", "", true},
		{[]string{"--url", "http://127.0.0.1:1," + s.URL, "echo", "--name", "x"}, 0, "--name x\n", "", true},
		{[]string{"--url", s.URL, "--", "no-such-command"}, 127, "",
			"shardid: install the command, or write its path: exec: \"no-such-command\": executable file not found " +
				"in $PATH\n", false},
		{[]string{"--url", s.URL, "--", "./none"}, 127, "", "./none", false},
		{[]string{"--url", s.URL, "--", "./text"}, 127, "", "./text\": permission denied\n", false},
		{[]string{"--url", s.URL}, 2, "", "requires at least 1 arg", false},
		{[]string{"--url", "localhost", "true"}, 2, "", "is no such URL", false},
		{[]string{"--url", s.URL, "--instance", "a\nb", "true"}, 2, "", "`instance` must have", false},
		{[]string{"--url", s.URL, "--name", "a/b", "true"}, 2, "", "`name` must have", false},
		{[]string{"--url", "http://127.0.0.1:1", "--wait", "100ms", "true"}, 1, "", ": no worker ID was leased", false},
		{[]string{"--url", "http://127.0.0.1:1", "--wait", "0", "true"}, 1, "", "connection refused", false},
	} {
		s.lastUsed = 0
		began := time.Now()
		exit, stdout, stderr := try(t, append([]string{"lease", "--name", "orders"}, c.args...)...)
		if exit != c.exit || stdout != c.stdout || !strings.Contains(stderr, c.stderr) || c.stderr == "" &&
			stderr != "" {
			t.Errorf("%q: exit %d, %q, %q; want %+v", c.args, exit, stdout, stderr, c)
		}
		last := time.UnixMilli(s.lastUsed)
		if c.leased != (s.lastUsed > 0) || c.leased && (last.Before(began.Add(leaseEdge).Truncate(time.Millisecond)) ||
			last.After(time.Now().Add(leaseEdge))) {
			t.Errorf("%q: released above %v", c.args, last)
		}
	}
}

// While no worker ID is free it says so and tries again; what no server would grant ends it.
func TestLeaseWaitsForAWorkerID(t *testing.T) {
	s := newLessors(t, &lessors{first: []int{-8, -12, ofProxy}})
	exit, stdout, stderr := try(t, "lease", "--name", "orders", "--url", s.URL, "--", "echo", "here")
	const again = ": no worker ID yet, trying again for up to 1m0s"
	if exit != 0 || stdout != "here\n" || strings.Count(stderr, again) != 3 || strings.Count(stderr, "\n") != 3 {
		t.Errorf("exit %d, %q, %q", exit, stdout, stderr)
	}
	s.first = []int{-8, silent} // the last request is cut off, and the reason is that of the one before
	exit, _, stderr = try(t, "lease", "--name", "orders", "--url", s.URL, "--wait", "1200ms", "--", "echo")
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); exit != 1 ||
		!strings.Contains(lines[len(lines)-1], "refused for a test") {
		t.Errorf("exit %d, %q", exit, stderr)
	}
	s.mu.Lock() // once the request that was cut off has been read
	s.first, s.refuse = nil, -2
	s.mu.Unlock()
	exit, _, stderr = try(t, "lease", "--name", "orders", "--url", s.URL, "--", "echo")
	if exit != 1 || !strings.Contains(stderr, "shardid: refused for a test: ") {
		t.Errorf("exit %d, %q", exit, stderr)
	}
}

// A command is started a second after what earlier holders may have used, with the lease renewed
// meanwhile; not when the clock is wrong.
func TestLeaseWaitsForItsTime(t *testing.T) {
	after := time.Now().Add(2500 * time.Millisecond)
	s := newLessors(t, &lessors{hold: 6 * time.Second, lease: leased{After: after.UnixMilli()}})
	exit, stdout, stderr := try(t, "lease", "--name", "orders", "--url", s.URL, "--", "date", "+%s%N")
	began, err := strconv.ParseInt(strings.TrimSpace(stdout), 10, 64)
	if exit != 0 || err != nil || began < after.Add(leaseEdge).Truncate(time.Millisecond).UnixNano() ||
		!strings.Contains(stderr, "waiting for ") {
		t.Errorf("exit %d, %q, %q, want after %d", exit, stdout, stderr, after.UnixNano())
	}
	now, hour := time.Now().UnixMilli(), time.Hour.Milliseconds()
	for _, l := range []leased{
		{Secret: "s", After: now + hour, Until: now + 2*hour, RenewMs: 1000}, // the clock is behind
		{Secret: "s", After: now - 2*hour, Until: now - hour, RenewMs: 1000}, // or ahead
	} {
		err := (&holder{lease: l}).compareClock()
		if err == nil || !strings.HasPrefix(err.Error(), "set the clock of this machine") {
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
			now := time.Now()
			h := &holder{command: exec.CommandContext(t.Context(), "sleep", "60"),
				lease: leased{Until: now.Add(time.Minute).UnixMilli(), RenewMs: 20_000}}
			h.command.SysProcAttr = ownGroup()
			check.Must(t, h.compareClock())
			check.Must(t, h.compareClock())
			if h.ended == nil || !h.killAt.IsZero() {
				t.Fatal("it is not started, or ended without a cause")
			}
			spoil(h)
			check.Must(t, h.compareClock())
			<-h.ended
			check.Equal(t, h.killAt.IsZero(), false)
		})
	}
}

// A lease that cannot be renewed ends the command a second before its end, first by SIGTERM; one
// that is lost ends it at once; and one that is renewed lasts as long as the command.
func TestLeaseEndsTheCommand(t *testing.T) {
	check.Deep(t)
	const prints = "while :; do date +%s%3N; sleep 0.05; done"
	for name, c := range map[string]struct {
		code   int
		script string
		status int
	}{
		"an orderly command":      {-8, `trap "exit 4" TERM; ` + prints, 4},
		"a stubborn command":      {-8, `trap "" TERM; ` + prints, 137},
		"a lease that is lost":    {-14, prints, 143},
		"a lease that is renewed": {0, `sleep 6; date +%s%3N`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLessors(t, &lessors{hold: 5 * time.Second, renewals: c.code})
			status, stdout, stderr := try(t, "lease", "--name", "orders", "--url", s.URL, "--", "sh", "-c", c.script)
			lines := strings.Fields(stdout)
			last, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
			if status != c.status || err != nil || last > s.lease.Until-leaseEdge.Milliseconds() ||
				strings.Contains(stderr, "shardid: ending the command: ") != (c.code != 0) {
				t.Errorf("exit %d, last at %d, leased until %d, %q", status, last, s.lease.Until, stderr)
			}
		})
	}
}

// What a command started ends with it, before the lease is given back, and the command ends with a holder that is
// killed.
func TestLeaseEndsTheProcessGroup(t *testing.T) {
	s := newLessors(t, &lessors{})
	lease := []string{"lease", "--name", "orders", "--url", s.URL, "--", "sh", "-c"}
	if args := os.Getenv("LEASE_TEST"); args != "" { // in the process that is killed below
		os.Exit(run(t.Context(), append(lease, args)))
	}
	isGone := func(pid string) {
		t.Helper()
		check.Eventually(t, "process "+pid+" ends", func() error {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err == nil && !strings.Contains(string(stat), ") Z ") {
				return fmt.Errorf("%s", stat)
			}
			return nil
		})
	}
	exit, stdout, _ := try(t, append(lease, "sleep 60 & echo $!")...)
	check.Equal(t, exit, 0)
	isGone(strings.TrimSpace(stdout))

	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLeaseEndsTheProcessGroup$")
	holder.Env = append(os.Environ(), "LEASE_TEST=echo $$; sleep 60")
	out, err := holder.StdoutPipe()
	check.Must(t, err)
	check.Must(t, holder.Start())
	var pid string
	check.Must(t, check.Err(fmt.Fscan(out, &pid)))
	check.Must(t, holder.Process.Kill())
	_ = holder.Wait()
	isGone(pid)
}
