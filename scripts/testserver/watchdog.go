//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// watchdogScript learns the server's process ID (0: none) line by line. When
// the pipe ends it kills the server's process group and removes the folder,
// again while dying processes still write into it: 100 × 0.1 s at most.
const watchdogScript = `
while read -r line; do pid=$line; done
if [ "${pid:-0}" -gt 0 ]; then kill -9 "-$pid" 2>/dev/null; fi
n=0
while rm -rf "$1" 2>/dev/null; [ -e "$1" ] && [ "$n" -lt 100 ]; do
	n=$((n + 1))
	sleep 0.1
done
`

// watchdog owns a folder, "" for none, and the one server that runs in it.
type watchdog struct {
	pipe *os.File
	pid  int
}

// startWatchdog starts a watchdog for dir, in a session of its own so that
// Ctrl-C ends the test process and not the one who cleans up after it.
func startWatchdog(dir string) (*watchdog, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	defer in.Close()
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "testserver-watchdog", dir)
	cmd.Dir = "/"
	cmd.Stdin = in
	pid, err := spawn(cmd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start watchdog: %w", err), out.Close())
	}
	return &watchdog{pipe: out, pid: pid}, nil
}

// Guard has the process group of pid killed when this process ends, in whatever way. end is
// for one that has ended by itself.
func Guard(pid int) (end func(), err error) {
	dog, err := startWatchdog("") // which removes nothing
	if err != nil {
		return func() {}, err
	}
	return func() {
		_ = errors.Join(dog.watch(0), dog.release()) // fails where the watchdog was killed: it guards nothing then
	}, dog.watch(pid)
}

// watch names the process to kill at the end; 0 is nothing to kill, so that a
// process ID used again by another process is never hit.
func (w *watchdog) watch(pid int) error {
	if _, err := fmt.Fprintln(w.pipe, pid); err != nil {
		return fmt.Errorf("tell watchdog: %w", err)
	}
	return nil
}

// release lets the watchdog do its work and waits until it has done so.
func (w *watchdog) release() error {
	if err := w.pipe.Close(); err != nil {
		return fmt.Errorf("release watchdog: %w", err)
	}
	if _, _, err := wait(w.pid, 0); err != nil {
		return fmt.Errorf("wait for watchdog: %w", err)
	}
	return nil
}

// spawn starts cmd as the leader of a new session and process group. The
// caller reaps it with wait: os/exec's own Wait would need a goroutine to
// notice an early exit.
func spawn(cmd *exec.Cmd) (pid int, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// wait is wait4, again after interrupts. With WNOHANG changed is false when
// nothing happened to the process yet.
func wait(pid, options int) (status syscall.WaitStatus, changed bool, err error) {
	for {
		got, err := syscall.Wait4(pid, &status, options, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, false, fmt.Errorf("wait4: %w", err)
		}
		return status, got == pid, nil
	}
}

// errRunning keeps stop waiting.
var errRunning = errors.New("still running")

// kill ends the server at once (SIGKILL to its process group) and reaps it;
// nil when it is not running.
func (p *process) kill() error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(-p.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill server: %w", err)
	}
	_, _, err := wait(p.pid, 0)
	return errors.Join(err, p.gone())
}

// stop asks the server to end (SIGTERM) and waits; one that does not end
// within stopLimit is killed, which is an error.
func (p *process) stop() error {
	if !p.alive() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM, syscall.SIGCONT); err != nil {
		return err
	}
	err := waitUntil(stopLimit, func() error {
		if p.alive() {
			return errRunning
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stop server: %w", errors.Join(err, p.kill()))
	}
	return nil
}

// pause returns when every thread of the server stands still: SIGSTOP alone
// would let it answer for a moment longer.
func (p *process) pause() error {
	if p.stopped {
		return nil
	}
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	status, _, err := wait(p.pid, syscall.WUNTRACED)
	if err != nil {
		return fmt.Errorf("pause server: %w", err)
	}
	if !status.Stopped() {
		return errors.Join(fmt.Errorf("pause server: %w", errExited), p.gone())
	}
	p.stopped = true
	return nil
}

func (p *process) resume() error {
	p.stopped = false
	return p.signal(syscall.SIGCONT)
}

func (p *process) signal(signals ...syscall.Signal) error {
	if !p.alive() {
		return fmt.Errorf("signal server: %w", errExited)
	}
	for _, s := range signals {
		if err := syscall.Kill(p.pid, s); err != nil {
			return fmt.Errorf("signal server %v: %w", s, err)
		}
	}
	return nil
}
