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

// watchdog owns a folder and the one server that runs in it.
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
