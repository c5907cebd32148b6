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
	"testing"
	"time"

	"shardid/scripts/check"
)

const (
	startLimit = 60 * time.Second // a MariaDB on a busy two-core machine, with room
	stopLimit  = 60 * time.Second // above the 10 s Redis may wait for its replicas

	// maxBase keeps base + folder + socket name below the 104 bytes of a Unix
	// socket address on macOS (108 on Linux).
	maxBase = 60
)

// errExited reports a server that ended instead of becoming ready.
var errExited = errors.New("server exited")

// Process is a program in a session of its own, so that Ctrl-C does not reach it. Its process group is killed
// however the process ends that started it. Safe for concurrent use.
type Process struct {
	Cmd   *exec.Cmd
	Begun time.Time // when it was started

	ended chan struct{} // closed once it has ended, and its watchdog knows
}

// Start starts cmd and returns at once.
func Start(cmd *exec.Cmd) (*Process, error) {
	dog, err := startWatchdog("") // which removes nothing
	if err != nil {
		return nil, err
	}
	// Releasing a watchdog fails where it was killed: it guards nothing then.
	return start(cmd, dog, func() { _ = dog.release() })
}

// start starts cmd under a watchdog and calls after when it has ended.
func start(cmd *exec.Cmd, dog *watchdog, after func()) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := &Process{Cmd: cmd, Begun: time.Now(), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		after()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	watched := dog.watch(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()   // Status says how it ended
		_ = dog.watch(0) // it fails where the watchdog was killed
		after()
		close(p.ended)
	}()
	if watched != nil {
		p.Kill()
		return nil, watched
	}
	return p, nil
}

// Kill ends the process and its group as a power cut would; one that is stopped dies too, and one that is
// gone stays so.
func (p *Process) Kill() {
	if !p.Gone() {
		_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) // fails where it has just ended
	}
	<-p.ended
}

// Send sends a signal, which must arrive.
func (p *Process) Send(s syscall.Signal) error {
	if err := p.Cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%v to %s: %w", s, p.Cmd, err)
	}
	return nil
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

// Status waits for the end and is the exit status, -1 for one that a signal ended.
func (p *Process) Status() int {
	<-p.ended
	return p.Cmd.ProcessState.ExitCode()
}

// server is one server and its folder, over all its lives. It has no lock: one goroutine at a time controls a
// server.
type server struct {
	t      testing.TB // in the name of which it acts
	shared bool       // with other tests: it may be used and not controlled

	dir   string
	dog   *watchdog
	argv  []string     // of the last start
	ready func() error // nil once it answers
	life  *Process     // the last one; nil before the first

	stopped bool // by Pause
}

// begin makes the folder of a server that ends with t, after the watchdog that will remove it: the
// other way round a kill in between leaves the folder. A test that failed shows the end of the server's log.
func (s *server) begin(t testing.TB) {
	t.Helper()
	skipShort(t)
	base := dataBase()
	if len(base) > maxBase {
		base = "/tmp"
	}
	s.t, s.dir = t, filepath.Join(base, "shardid-"+strings.ToLower(rand.Text()[:16]))
	dog, err := startWatchdog(s.dir)
	check.Must(t, err)
	s.dog = dog
	t.Cleanup(func() {
		if t.Failed() && s.life != nil {
			t.Logf("testserver: %s", s.logTail())
		}
		check.OK(t, s.remove(), "testserver")
	})
	check.Must(t, os.Mkdir(s.dir, 0o700))
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

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// startTries is how often a start is tried on other ports.
const startTries = 4

// startOnPorts starts the server on free ports, and again on others when it exited, which
// is what servers do when their port is taken. args gives its command line, and may write files for it.
func (s *server) startOnPorts(ports int, args func(ports []int) []string) {
	s.t.Helper()
	err := errExited
	for try := 0; try < startTries && errors.Is(err, errExited); try++ {
		free, failed := FreePorts(ports)
		check.Must(s.t, failed)
		s.argv = args(free)
		err = s.launch()
	}
	check.Must(s.t, err)
}

// launch starts argv and waits until it is ready. A server that does not
// get there is killed and the end of its log is part of the error.
func (s *server) launch() error {
	if err := s.start(s.argv); err != nil {
		return err
	}
	err := check.Within(startLimit, func() error {
		if s.life.Gone() {
			return nil
		}
		return s.ready()
	})
	if s.life.Gone() {
		err = errExited
	}
	if err == nil {
		return nil
	}
	s.life.Kill()
	return fmt.Errorf("start %s: %w%s", filepath.Base(s.argv[0]), err, s.logTail())
}

// start runs argv in the folder, with its output appended to the log.
func (s *server) start(argv []string) error {
	log, err := os.OpenFile(s.path("server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	s.life, err = start(cmd, s.dog, func() {})
	return err
}

// run runs argv to its end, in the folder and under the watchdog.
func (s *server) run(argv []string) {
	s.t.Helper()
	check.Must(s.t, s.start(argv))
	if status := s.life.Status(); status != 0 {
		s.t.Fatalf("testserver: run %s: status %d%s", filepath.Base(argv[0]), status, s.logTail())
	}
}

// alive reports whether the server runs or is paused.
func (s *server) alive() bool { return s.life != nil && !s.life.Gone() }

// answers reports whether a client can expect an answer.
func (s *server) answers() bool { return s.alive() && !s.stopped }

// remove kills the server and removes its folder, by way of the watchdog.
func (s *server) remove() error {
	err := s.dog.release()
	if s.life != nil {
		<-s.life.ended
	}
	if _, statErr := os.Stat(s.dir); !errors.Is(statErr, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove %s: still there (stat: %w)", s.dir, statErr))
	}
	return err
}

// logTail is the end of the server's log, for people.
func (s *server) logTail() string {
	const keep = 15
	raw, err := os.ReadFile(s.path("server.log"))
	if err != nil {
		return fmt.Sprintf("\n(no server log: %v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	lines = lines[max(0, len(lines)-keep):]
	return "\nend of the server's log:\n\t" + strings.Join(lines, "\n\t")
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

// watchdog owns a folder, "" for none, and the one process that it watches.
type watchdog struct {
	pipe *os.File
	cmd  *exec.Cmd
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
	cmd.Dir, cmd.Stdin, cmd.SysProcAttr = "/", in, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start watchdog: %w", err), out.Close())
	}
	return &watchdog{out, cmd}, nil
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
	return errors.Join(w.pipe.Close(), w.cmd.Wait())
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

// FreeAddrs are addresses of this machine that were free a moment ago.
func FreeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	ports, err := FreePorts(n)
	check.Must(t, err)
	for _, port := range ports {
		addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return addrs
}
