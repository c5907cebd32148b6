//go:build unix

package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

// zkSession returns a session of 10 s that is ended with the test.
func zkSession(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect(addrs, 10*time.Second, zk.WithLogger(silent{}))
	wantNil(t, "connect", err)
	t.Cleanup(func() {
		c.Close()
		for range events { // closed by the last goroutine of the client
		}
	})
	return c
}

func zkExists(t *testing.T, addr, path string) bool {
	t.Helper()
	found, _, err := zkSession(t, addr).Exists(path)
	wantNil(t, "exists "+path, err)
	return found
}

func TestFindZooKeeper(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"debian/zookeeper.jar", "archive/zookeeper-3.9.3.jar", "archive/zookeeper-jute-3.9.3.jar"} {
		wantNil(t, "folder", os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		wantNil(t, "jar", os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for _, tc := range []struct{ pattern, want string }{
		{"debian/zookeeper.jar", dir + "/debian/zookeeper.jar:" + dir + "/debian/slf4j-simple.jar"},
		{"archive/zookeeper-[0-9]*.jar", dir + "/archive/*"},
	} {
		got, err := findZooKeeper([]string{dir + "/none/zookeeper.jar", filepath.Join(dir, tc.pattern)})
		if got != tc.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", tc.pattern, got, err, tc.want)
		}
	}
	if _, err := findZooKeeper([]string{dir + "/none"}); err == nil || !strings.Contains(err.Error(), "install-test-servers.sh") {
		t.Errorf("no advice where ZooKeeper is missing: %v", err)
	}
}

// TestEnsemble: without its leader it elects another; a server that is cut off serves
// nobody while the others go on, and follows again afterwards.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := Ensemble(t)
	conn := zkSession(t, e.Addrs()...)
	create := func(path string) {
		t.Helper()
		wantNil(t, path, waitUntil(startLimit, func() error {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			if err == zk.ErrNodeExists { //nolint:errorlint // the client's own value
				return nil
			}
			return err
		}))
	}
	create("/before")
	first := e.Leader()
	e.Servers[first].Kill()
	create("/without")
	if second := e.Leader(); second == first {
		t.Fatal("a killed server leads")
	}
	e.Servers[first].Restart()
	e.WaitAll()

	follower := (e.Leader() + 1) % ensembleSize
	e.Cut(follower)
	wantNil(t, "the end of its service", waitUntil(startLimit, func() error {
		status, err := fourLetters(e.Servers[follower].addr, "srvr")
		if err == nil && strings.Contains(status, "Mode:") {
			return errRunning
		}
		return err
	}))
	create("/cut")
	e.Mend(follower)
	e.WaitAll()
	for _, path := range []string{"/before", "/without", "/cut"} {
		if !zkExists(t, e.Servers[follower].addr, path) {
			t.Errorf("the server that was cut off has no %s", path)
		}
	}
}
