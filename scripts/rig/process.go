//go:build unix

package rig

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
	Cmd   *exec.Cmd
	Begun time.Time // when it was started

	t     testing.TB
	log   string        // path of its output, "" if that is not in a file
	from  int           // where this process' output begins in it
	ended chan struct{} // closed when the process has been reaped
}

// Start starts cmd and returns at once. Its output is added to the file log, if that is named.
// Ctrl-C does not reach it.
func Start(t testing.TB, cmd *exec.Cmd, log string) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, t: t, log: log, ended: make(chan struct{})}
	if log != "" {
		out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		check.Must(t, err)
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		p.from = len(p.Output())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.Begun = time.Now()
	check.Must(t, cmd.Start())
	unguard, err := testserver.Guard(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait() // the status is in ProcessState
		unguard()
		close(p.ended)
	}()
	t.Cleanup(func() {
		if p.Kill(); t.Failed() && log != "" {
			t.Logf("end of the log of %s (%d):\n%s", cmd, cmd.Process.Pid, LastLines(p.Output(), 15))
		}
	})
	check.Must(t, err)
	return p
}

// Kill ends the process as a power cut would; one that is stopped dies too, and one that is
// gone stays so.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.ended
}

// Signal sends s, which must arrive.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to %s: %v", s, p.Cmd, err)
	}
}

// Gone says whether the process has ended.
func (p *Process) Gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Exit waits for the end, at most for limit, and returns the exit status.
func (p *Process) Exit(limit time.Duration) int {
	p.t.Helper()
	Eventually(p.t, limit, "the process ends", p.Gone)
	return p.Cmd.ProcessState.ExitCode()
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
	err := Within(time.Minute, func() error {
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

// FreeAddrs are addresses of this machine that were free a moment ago. No connection gets one of their ports.
func FreeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	ports, err := testserver.FreePorts(n)
	check.Must(t, err)
	for _, port := range ports {
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return addrs
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
