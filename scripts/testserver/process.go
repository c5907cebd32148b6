//go:build unix

package testserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// DataVariable names the folder for the data of servers, see dataBase.
const DataVariable = "SHARDID_TEST_DATA"

// dataBase is where servers keep their data: in memory where there is room, as no test takes the
// power away, and a disk of a busy machine answers when it likes.
func dataBase() string {
	if dir := os.Getenv(DataVariable); dir != "" {
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
		ports, err := freePorts(p.ports)
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
