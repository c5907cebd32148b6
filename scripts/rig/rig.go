//go:build unix

// Package rig drives shardid from outside, for the tests of scripts/stories, scripts/faults and
// scripts/bench: processes, their settings, callers, and a ledger of all IDs that came.
package rig

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	"go.uber.org/goleak"
)

// Main runs the tests of a package that starts shardid, as testserver.Main does, and removes
// what Binary has built.
func Main(m *testing.M) {
	testserver.Main(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(binaryDir()); err != nil {
			fmt.Fprintln(os.Stderr, "rig: remove the binary:", err)
		}
		os.Exit(code)
	}))
}

func binaryDir() string {
	return filepath.Join(os.TempDir(), "shardid-rig-"+strconv.Itoa(os.Getpid()))
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir(), "shardid")
	out, err := exec.Command("go", "build", "-o", path, "shardid/cmd/shardid").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build shardid: %w\n%s", err, out)
	}
	return path, nil
})

// Binary builds shardid once and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	check.Must(t, err)
	return path
}

// Process is a process under test. It ends with the test, or with the test process if that
// ends in another way.
type Process struct {
	*testserver.Process
	t    testing.TB
	log  string // path of its output, "" if that is not in a file
	from int    // where this process' output begins in it
}

// Start starts cmd and returns at once. Its output is added to the file log, if that is named.
func Start(t testing.TB, cmd *exec.Cmd, log string) *Process {
	t.Helper()
	p := &Process{t: t, log: log}
	if log != "" {
		out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		check.Must(t, err)
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		p.from = len(p.Output())
	}
	var err error
	p.Process, err = testserver.Start(cmd)
	check.Must(t, err)
	t.Cleanup(func() {
		if p.Kill(); t.Failed() && log != "" {
			t.Logf("end of the log of %s (%d):\n%s", cmd, cmd.Process.Pid, LastLines(p.Output(), 15))
		}
	})
	return p
}

// Signal sends s, which must arrive.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	check.Must(p.t, p.Send(s))
}

// Exit waits for the end, at most for limit, and returns the exit status.
func (p *Process) Exit(limit time.Duration) int {
	p.t.Helper()
	Eventually(p.t, limit, "the process ends", p.Gone)
	return p.Status()
}

// Output is all of its log, also what earlier processes have written there.
func (p *Process) Output() string {
	raw, err := os.ReadFile(p.log)
	check.OK(p.t, err)
	return string(raw)
}

// Lines returns the log lines that hold every one of words.
func (p *Process) Lines(words ...string) (found []string) {
lines:
	for line := range strings.Lines(p.Output()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// Said is the address in the log line of this process with that message, "" before it comes.
func (p *Process) Said(msg string) string {
	for line := range strings.Lines(p.Output()[p.from:]) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == msg {
			return said.Addr
		}
	}
	return ""
}

// Listens returns the address of HTTP as soon as the log names it.
func (p *Process) Listens() (addr string) {
	p.t.Helper()
	err := check.Within(time.Minute, func() error {
		if addr = p.Said("listening"); addr == "" && !p.Gone() {
			return errors.New("it does not say where it listens")
		}
		return nil
	})
	if addr == "" {
		p.t.Fatalf("%s: gone %v, %v:\n%s", p.Cmd, p.Gone(), err, LastLines(p.Output(), 5))
	}
	return addr
}

// Memory is a field of the process' status, such as VmRSS or VmHWM, in bytes; 0 where the
// system does not tell.
func (p *Process) Memory(field string) int64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid)) // none: nothing is found
	for line := range bytes.Lines(raw) {
		var kib int64
		if n, _ := fmt.Sscanf(string(line), field+": %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// LastLines returns the last n lines of a text.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Metric is the value of a metric without labels in the text of /metrics, which must have it.
func Metric(t testing.TB, text, name string) float64 {
	t.Helper()
	_, rest, found := strings.Cut("\n"+text, "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(value, 64)
	if !found || err != nil {
		t.Fatalf("metric %s: %q, %v", name, value, err)
	}
	return v
}

// Query runs statements one by one; they must succeed.
func Query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Settings are SHARDID_ variables, named without that prefix; those that begin with GO or OTEL are
// the Go runtime's and OpenTelemetry's, and have none.
type Settings map[string]string

// With returns a copy with further settings; more wins.
func (s Settings) With(more Settings) Settings {
	out := Settings{}
	for _, m := range []Settings{s, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// Environ is a whole environment with home in dir: nothing of the caller's is in it but the path.
func (s Settings) Environ(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	for k, v := range s {
		if !strings.HasPrefix(k, "GO") && !strings.HasPrefix(k, "OTEL") {
			k = "SHARDID_" + k
		}
		env = append(env, k+"="+v)
	}
	return env
}

// Command is a program that runs in dir with these settings and is not started yet.
func (s Settings) Command(dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, s.Environ(dir)
	return cmd
}

// Eventually asks until check is true; the test ends when that takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, what string, isTrue func() bool) {
	t.Helper()
	Until(t, limit, what, func() error {
		if isTrue() {
			return nil
		}
		return errors.New("it is not")
	})
}

// Until is Eventually for a check that says what is wrong.
func Until(t testing.TB, limit time.Duration, what string, f func() error) {
	t.Helper()
	if err := check.Within(limit, f); err != nil {
		t.Fatalf("not within %v: %s: %v", limit, what, err)
	}
}

// Callers are goroutines that ask until they are told to stop. Its zero value is ready.
type Callers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Start begins n callers, each of which asks until ctx ends; Stop ends it, at the latest with
// the test.
func (c *Callers) Start(t testing.TB, n int, ask func(ctx context.Context, caller int)) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	for i := range n {
		c.wg.Go(func() { ask(ctx, i) })
	}
	t.Cleanup(c.Stop)
}

// Stop returns when all have ended; it may be called again.
func (c *Callers) Stop() {
	c.cancel()
	c.wg.Wait()
}

// ShardOf is the contract's: Java's String.hashCode over UTF-16, its magnitude modulo 64.
func ShardOf(pass string) int64 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(pass)) {
		h = 31*h + uint32(unit)
	}
	n := int64(int32(h))
	return max(n, -n) % 64
}

// PassOf is a gatePass of a shard.
func PassOf(shard int64) string {
	for n := 0; ; n++ {
		if pass := fmt.Sprintf("user%d", n); ShardOf(pass) == shard {
			return pass
		}
	}
}

// RandomPass is what people send: names, numbers, addresses, in any script.
func RandomPass(rnd *rand.Rand) string {
	formats := []string{"user%d", "138%08d", "first.last+%d@example.com", "张三%d", "欧阳娜娜%d", "🦊%d👩‍👩‍👧",
		"O'Neil & Söhne = 50%% #%d", "+49 (0)30 %d"}
	return fmt.Sprintf(formats[rnd.IntN(len(formats))], rnd.IntN(2000))
}
