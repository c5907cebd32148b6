package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestLeaseProcess is not a test but `shardid lease` in a process of its own, when others start it.
func TestLeaseProcess(t *testing.T) {
	if args := os.Getenv("LEASE_TEST"); args != "" {
		os.Exit(run(t.Context(), strings.Split(args, "\n")))
	}
}

// leaseProcess is `shardid lease` in a process of its own, whose command prints its process ID.
type leaseProcess struct {
	*exec.Cmd
	t     *testing.T
	out   string // file
	child string // the process ID of the command, as it sees it
}

func startLease(t *testing.T, s *lessors, script string) *leaseProcess {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	file, err := os.Create(out)
	check.Must(t, err)
	defer func() { check.Must(t, file.Close()) }()
	p := &leaseProcess{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLeaseProcess$"), t: t,
		out: out}
	p.Stdout, p.Stderr = file, file
	lease := []string{"lease", "--name", "orders", "--url", s.URL, "--", "sh", "-c", "echo child $$; " + script}
	p.Env = append(os.Environ(), "LEASE_TEST="+strings.Join(lease, "\n"))
	check.Must(t, p.Start())
	p.child = p.says("child ")
	t.Cleanup(func() {
		if pid, err := strconv.Atoi(p.child); err == nil && t.Failed() { // the kernel did not
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return p
}

// says waits until the output has a text.
func (p *leaseProcess) says(text string) string {
	p.t.Helper()
	for till := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out, err := os.ReadFile(p.out)
		if _, after, found := strings.Cut(string(out), text); found && strings.Contains(after, "\n") {
			return strings.Fields(after + " -")[0]
		}
		if time.Now().After(till) {
			p.t.Fatalf("%q, %v: no %q", out, err, text)
		}
	}
}

// status waits for the end, which must come.
func (p *leaseProcess) status() int {
	late := time.AfterFunc(20*time.Second, func() {
		p.t.Error("it does not end")
		_ = p.Process.Kill()
	})
	defer late.Stop()
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

func (p *leaseProcess) String() string {
	out, _ := os.ReadFile(p.out)
	return fmt.Sprintf("%v: %q", p.ProcessState, out)
}

// isGone says whether a process has ended.
func isGone(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// goneBy waits for the end of a process, which must come before an instant.
func goneBy(t *testing.T, pid string, at time.Time, p *leaseProcess) {
	t.Helper()
	for !isGone(pid) {
		if time.Now().After(at) {
			t.Fatalf("the command still runs at %v, %v", at, p)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *leaseProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// Signals go to the command, whose status is that of the whole, and the lease is renewed until it
// ends.
func TestLeasePassesSignals(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	s := newLessors(t, 5*time.Second)
	p := startLease(t, s, `trap "echo got usr2" USR2; trap "echo got usr1" USR1; trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done`)
	p.says("ready")
	p.signal(syscall.SIGUSR2) // not HUP, which nohup has ignored
	p.says("got usr2")
	time.Sleep(6 * time.Second)
	p.signal(syscall.SIGUSR1)
	p.says("got usr1")
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 3 || s.released() == 0 {
		t.Errorf("%v, released above %d", p, s.released())
	}
}

// A lease that cannot be renewed ends the command a second before its end, first by SIGTERM; one
// that is lost ends it at once.
func TestLeaseEndsTheCommand(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	for name, c := range map[string]struct {
		code   int
		script string
		status int
	}{
		"an orderly command":   {-8, `trap "echo ended; exit 4" TERM; while :; do sleep 0.05; done`, 4},
		"a stubborn command":   {-8, `trap "" TERM; while :; do sleep 0.05; done`, 137},
		"a lease that is lost": {-14, `sleep 60`, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLessors(t, 5*time.Second)
			p := startLease(t, s, "exec 2>&1; "+c.script)
			s.set(func() { s.refuse = c.code })
			goneBy(t, p.child, s.until().Add(-leaseEdge), p)
			if status := p.status(); status != c.status || !strings.Contains(p.String(), "shardid: ending the command: ") {
				t.Error(p)
			}
		})
	}
}

// The command ends with a holder that is killed.
func TestLeaseOfAHolderThatIsKilled(t *testing.T) {
	t.Parallel()
	p := startLease(t, newLessors(t, time.Minute), "while :; do sleep 0.05; done")
	p.signal(syscall.SIGKILL)
	goneBy(t, p.child, time.Now().Add(5*time.Second), p)
	p.status()
}

// What a command started ends with it, before the lease is given back.
func TestLeaseEndsTheProcessGroup(t *testing.T) {
	t.Parallel()
	s := newLessors(t, time.Minute)
	p := startLease(t, s, "sleep 60 & echo left $!")
	left := p.says("left ")
	if status := p.status(); status != 0 || s.released() == 0 {
		t.Error(p)
	}
	goneBy(t, left, time.Now().Add(time.Second), p)
}
