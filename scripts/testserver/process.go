//go:build unix

package testserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 60 * time.Second // a MariaDB on a busy two-core machine, with room
	stopLimit  = 20 * time.Second // above the 10 s Redis may wait for its replicas
	pollEvery  = 10 * time.Millisecond

	// maxBase keeps base + folder + socket name below the 104 bytes of a Unix
	// socket address on macOS (108 on Linux).
	maxBase = 60
)

// errExited reports a server that ended instead of becoming ready.
var errExited = errors.New("server exited")

// process is one server and its folder. It has no lock: one goroutine at a
// time controls a server.
type process struct {
	dir string
	dog *watchdog
	plan
	argv []string // of the last start

	pid     int   // 0: not running
	stopped bool  // by pause
	err     error // met where it could not be returned; remove does
}

// plan is how a server is started.
type plan struct {
	ports   int                                 // it needs
	prepare func() error                        // done once, in the folder; nil: nothing
	args    func(ports []int) ([]string, error) // its command line; it may write files for it
	ready   func() error                        // nil once it answers
}

// newProcess makes the folder, after the watchdog that will remove it: the
// other way round a kill in between leaves the folder.
func newProcess() (*process, error) {
	base := dataBase()
	if len(base) > maxBase {
		base = "/tmp"
	}
	dir := filepath.Join(base, "shardid-"+strings.ToLower(rand.Text()[:16]))
	dog, err := startWatchdog(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("make server folder: %w", err), dog.release())
	}
	return &process{dir: dir, dog: dog}, nil
}

// dataBase is where servers keep their data, unless SHARDID_TEST_DATA names a folder: in memory where there is room, as
// no test takes the power away, and a disk of a busy machine answers when it likes.
func dataBase() string {
	if dir := os.Getenv("SHARDID_TEST_DATA"); dir != "" {
		return dir
	}
	const memory, room = "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	err := syscall.Statfs(memory, &fs)
	if err == nil && fs.Bavail >= room/uint64(fs.Bsize) && syscall.Access(memory, 2) == nil {
		return memory
	}
	return os.TempDir()
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

// startTries is how often a start is tried on other ports.
const startTries = 4

// startOnPorts starts the server on free ports, and again on others when it exited, which
// is what servers do when their port is taken.
func (p *process) startOnPorts() error {
	var last error
	for range startTries {
		ports, err := FreePorts(p.ports)
		if err == nil {
			p.argv, err = p.args(ports)
		}
		if err != nil {
			return err
		}
		if last = p.launch(); !errors.Is(last, errExited) {
			return last
		}
	}
	return fmt.Errorf("tried %d times: %w", startTries, last)
}

// launch starts argv and waits until it is ready. A server that does not
// get there is killed and the end of its log is part of the error.
func (p *process) launch() error {
	if err := p.start(p.argv); err != nil {
		return err
	}
	err := waitUntil(startLimit, func() error {
		if !p.alive() {
			return errExited
		}
		return p.ready()
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("start %s: %w%s", filepath.Base(p.argv[0]), errors.Join(err, p.kill()), p.logTail())
}

// restart stops the server if it runs and starts it with the same arguments.
// Its port was free for a moment: a program that took it gets a second to go away.
func (p *process) restart() error {
	if err := p.stop(); err != nil {
		return err
	}
	return waitUntil(time.Second, func() error {
		err := p.launch()
		if errors.Is(err, errExited) {
			return errors.New(err.Error()) // worth another try
		}
		return err
	})
}

// start runs argv in the folder, with its output appended to the log.
func (p *process) start(argv []string) error {
	log, err := os.OpenFile(p.path("server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	if p.pid, err = spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	if err := p.dog.watch(p.pid); err != nil {
		return errors.Join(err, p.kill())
	}
	return nil
}

// run runs argv to its end, in the folder and under the watchdog.
func (p *process) run(argv []string) error {
	if err := p.start(argv); err != nil {
		return err
	}
	status, _, err := wait(p.pid, 0)
	if err := errors.Join(err, p.gone()); err != nil {
		return err
	}
	if status.ExitStatus() != 0 {
		return fmt.Errorf("run %s: status %d%s", filepath.Base(argv[0]), status.ExitStatus(), p.logTail())
	}
	return nil
}

func (p *process) gone() error {
	p.pid, p.stopped = 0, false
	return p.dog.watch(0)
}

// alive reports whether the server runs or is paused, and reaps it if neither.
func (p *process) alive() bool {
	if p.pid == 0 {
		return false
	}
	_, ended, err := wait(p.pid, syscall.WNOHANG)
	if err == nil && !ended {
		return true
	}
	p.err = errors.Join(p.err, p.gone())
	return false
}

// answers reports whether a client can expect an answer.
func (p *process) answers() bool { return p.pid != 0 && !p.stopped }

// remove kills the server and removes its folder, by way of the watchdog.
func (p *process) remove() error {
	err := errors.Join(p.err, p.dog.release())
	if p.pid != 0 {
		_, _, waitErr := wait(p.pid, 0)
		err = errors.Join(err, waitErr)
		p.pid = 0
	}
	if _, statErr := os.Stat(p.dir); !errors.Is(statErr, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove %s: still there (stat: %w)", p.dir, statErr))
	}
	return err
}

// logTail is the end of the server's log, for people.
func (p *process) logTail() string {
	const keep = 15
	raw, err := os.ReadFile(p.path("server.log"))
	if err != nil {
		return fmt.Sprintf("\n(no server log: %v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	lines = lines[max(0, len(lines)-keep):]
	return "\nend of the server's log:\n\t" + strings.Join(lines, "\n\t")
}

// waitUntil calls check until it returns nil, at most for limit; a server that
// exited is not waited for.
func waitUntil(limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(pollEvery) {
		err := check()
		if err == nil || errors.Is(err, errExited) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("not ready after %v: %w", limit, err)
		}
	}
}

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

// Ports of servers lie below those that Linux gives to connections, 32768 and up: a
// server that is stopped and started again would find its port taken by one.
const firstPort, lastPort = 12000, 32000

// FreePorts names n different ports of 127.0.0.1 without a listener. They
// are not reserved: another process may take one before the server does.
func FreePorts(n int) (ports []int, err error) {
	for tries := 0; len(ports) < n; tries++ {
		port := firstPort + mathrand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			defer l.Close() // held until all are chosen, so that they differ
			ports = append(ports, port)
		} else if tries > 1000 {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
	}
	return ports, nil
}
