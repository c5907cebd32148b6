//go:build unix

// Package testserver starts private Redis, Sentinel, Redis Cluster, MariaDB and
// ZooKeeper servers for tests: real servers, on free ports of 127.0.0.1, each in
// a temporary folder of its own.
//
//	func TestMain(m *testing.M) { testserver.Main(m) }
//
//	func TestStore(t *testing.T) {
//		db := testserver.SharedMariaDB(t).NewDatabase(t) // a DSN
//		rdb := testserver.Redis(t)                       // may be killed
//		zoo := testserver.ZooKeeper(t).Addr()            // host:port
//		...
//	}
//
// A helper returns when its server answers and fails the test when it does
// not; with `go test -short` it skips the test. Private servers end with their
// test, shared ones with the test process.
//
// # Other versions
//
// DB=mysql-9.7, mariadb-10.11 or mariadb-11.8 chooses what runs where MariaDB is
// asked for, KV=redis-7.0, redis-8.0 or valkey-9.1 what runs where Redis is. Without
// them it is what is installed. scripts/fetch-test-server.sh fetches the others,
// and knows their names.
//
// # Nothing is left behind
//
// A server belongs to a watchdog: a shell that waits for the end of a pipe from
// the test process. The kernel closes that pipe however the test process ends,
// kill -9 included; the watchdog then kills the server and removes the folder.
// The ordinary end of a test takes the same path.
//
// # Goroutines
//
// A server has a goroutine, which ends with it; a Fake and a Proxy have some, which end
// with their test. So goleak sees only the caller's own.
// Unless said otherwise its functions and methods belong to the goroutine that
// runs the test, as they report errors by t.Fatal.
package testserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

// atEnd is what is left to do when all tests of this process have ended.
var atEnd struct {
	sync.Mutex
	cleanups []func()
	failed   bool
}

// Main runs a package's tests, stops the shared servers, fails on goroutines
// left over (goleak) and ends the process. Call it from TestMain. go-redis does not
// log meanwhile: tests break its connections all the time.
func Main(m *testing.M, opts ...goleak.Option) {
	logging.Disable()
	goleak.VerifyTestMain(suite{m}, opts...)
}

type suite struct{ m *testing.M }

// Run stops the shared servers before goleak counts.
func (s suite) Run() int {
	code := s.m.Run()
	for _, cleanup := range atEnd.cleanups {
		cleanup()
	}
	if atEnd.failed && code == 0 {
		return 1
	}
	return code
}

// shared is the one server of a kind of this test process.
type shared[S any] struct {
	once   sync.Once
	server *S
}

// get is a copy of it, for use and not for control; start starts it for the first test that asks. One that did not
// start is not tried again, so that a broken installation costs one timeout and not one per test.
func (o *shared[S]) get(t testing.TB, start func(testing.TB) *S) S {
	t.Helper()
	skipShort(t)
	o.once.Do(func() { o.server = start(forAll{t}) })
	if o.server == nil {
		t.Fatal("testserver: the shared server did not start: see the first test that needed it")
	}
	return *o.server
}

// forAll is a test that starts what lasts until all tests have ended.
type forAll struct{ testing.TB }

func (forAll) Cleanup(f func()) {
	atEnd.Lock()
	defer atEnd.Unlock()
	atEnd.cleanups = append(atEnd.cleanups, f)
}

func (forAll) Failed() bool { return false } // which says nothing of a server of all tests

func (forAll) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	atEnd.failed = true
}

// Kill ends the server as a power cut would (SIGKILL) and waits for its end.
// A server that is not running stays so.
func (s *server) Kill() {
	s.t.Helper()
	s.isPrivate()
	if s.stopped = false; s.life != nil {
		s.life.Kill()
	}
}

// Stop ends the server in an orderly way (SIGTERM) and waits, a minute at most,
// for its end. A paused server is resumed for it.
func (s *server) Stop() {
	s.t.Helper()
	s.isPrivate()
	if !s.alive() {
		return
	}
	s.stopped = false
	err := errors.Join(s.life.Send(syscall.SIGTERM), s.life.Send(syscall.SIGCONT))
	if err != nil && !errors.Is(err, os.ErrProcessDone) { // it may end before it is resumed
		s.t.Fatal("testserver: stop: ", err)
	}
	select {
	case <-s.life.ended:
	case <-time.After(stopLimit):
		s.life.Kill()
		s.t.Fatal("testserver: the server does not stop")
	}
}

// Restart starts the server again on the same port and in the same folder, and
// returns when it answers. A running server is stopped first. What survives is
// up to the server: a Redis keeps nothing unless started with, for example,
// "--appendonly", "yes".
func (s *server) Restart() {
	s.t.Helper()
	s.Stop()
	// Its port was free for a moment: a program that took it gets a second to go away.
	check.Must(s.t, check.Within(time.Second, s.launch))
}

// Pause freezes the server (SIGSTOP): connections stay open, connects succeed, nothing is answered.
// It returns when every thread stands still: SIGSTOP alone would let it answer for a moment longer.
func (s *server) Pause() {
	s.t.Helper()
	s.isPrivate()
	if s.stopped {
		return
	}
	check.Must(s.t, s.life.Send(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for err := error(syscall.EINTR); errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(s.life.Cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	}
	if s.stopped = status.Stopped(); !s.stopped {
		s.t.Fatal("testserver: pause: ", errExited)
	}
}

// Resume ends a Pause (SIGCONT).
func (s *server) Resume() {
	s.t.Helper()
	s.isPrivate()
	s.stopped = false
	check.Must(s.t, s.life.Send(syscall.SIGCONT))
}

// isPrivate ends the test where it would take a server from others.
func (s *server) isPrivate() {
	s.t.Helper()
	if s.shared {
		s.t.Fatal("testserver: this server is shared with other tests, take a private one")
	}
}

// skipShort skips a test that needs a server.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real server")
	}
}

// edition is one version of a server that the tests can run on.
type edition struct {
	programs []string // names of the server, any of them
	root     string   // where scripts/fetch-test-server.sh put it; "" is the installed one
}

// OnMySQL reports whether DB chooses a MySQL, for statements that only one of the
// two products has. Safe for concurrent use.
func OnMySQL() bool { return strings.HasPrefix(os.Getenv("DB"), "mysql-") }

// On makes MariaDB and Redis start for t what db and kv name, as DB and KV do for a whole
// run, and skips t where one of them is not here. It returns the folders of their clients,
// for a PATH. The shared servers stay what they are.
func On(t *testing.T, db, kv string) (clients []string) {
	t.Helper()
	skipShort(t)
	t.Setenv("DB", db)
	t.Setenv("KV", kv)
	for _, find := range []func() (edition, error){database, keyValue} {
		e, err := find()
		if err != nil {
			t.Skip(err)
		}
		if e.root != "" {
			clients = append(clients, filepath.Join(e.root, "usr", "bin"))
		}
	}
	return clients
}

func database() (edition, error) { return choose("DB", "mariadbd", "mysqld") }

func keyValue() (edition, error) { return choose("KV", "redis-server") }

// choose finds the server that a variable names, such as mysql-9.7: the installed one if it has that version, else
// the fetched one. Without a name it is the installed one, whatever its version.
func choose(variable string, installed ...string) (edition, error) {
	name := os.Getenv(variable)
	e := edition{programs: installed}
	product, version, _ := strings.Cut(name, "-")
	switch product {
	case "":
		return e, nil
	case "mysql":
		e.programs = []string{"mysqld"}
	case "valkey":
		e.programs = []string{"valkey-server"}
	}
	banner := regexp.MustCompile(`(Ver |v=)` + regexp.QuoteMeta(version) + `\.`)
	for _, e.root = range []string{"", filepath.Join(fetchedDir(), name)} {
		bin, err := e.program("", e.programs...)
		if err != nil {
			continue
		}
		if out, err := exec.Command(bin, "--version").Output(); err == nil && banner.Match(out) {
			return e, nil
		}
	}
	return e, fmt.Errorf("%s=%s: it is not in %s: `scripts/fetch-test-server.sh %s` fetches it",
		variable, name, e.root, name)
}

// program returns the path of the first of names that this edition has: in the PATH, or where distributions keep
// servers, unless it was fetched. The error tells people what to do.
func (e edition) program(debian string, names ...string) (string, error) {
	dirs := []string{"", "/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/bin", "/usr/libexec", "/usr/lib/mysql",
		"/usr/lib/mariadb", "/usr/local/mysql/bin", "/opt/homebrew/bin", "/opt/homebrew/sbin"}
	advice := "install the Debian package " + debian + "; `make test` or scripts/install-test-servers.sh does so"
	if e.root != "" {
		dirs = []string{filepath.Join(e.root, "usr/sbin"), filepath.Join(e.root, "usr/bin")}
		advice = "remove " + e.root + " and fetch the server again"
	}
	for _, name := range names {
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return filepath.Abs(path)
			}
		}
	}
	return "", fmt.Errorf("%s not found: %s", strings.Join(names, " or "), advice)
}

// fetchedDir is where scripts/fetch-test-server.sh puts what it fetches.
func fetchedDir() string {
	if dir := os.Getenv("SHARDID_TEST_SERVERS"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "shardid", "test-servers")
	}
	return filepath.Join(os.Getenv("HOME"), ".cache", "shardid", "test-servers")
}

// MariaDBClient returns the path of the mariadb (or mysql) command line client of
// the server that DB chooses.
func MariaDBClient(t testing.TB) string {
	t.Helper()
	e, err := database()
	check.Must(t, err)
	path, err := e.program("mariadb-server", "mariadb", "mysql")
	check.Must(t, err)
	return path
}
