//go:build unix

package testserver

import (
	"errors"
	"net"
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

func TestZooKeeperLife(t *testing.T) {
	t.Parallel()
	var dir string
	wantRemoved(t, &dir)
	s := ZooKeeper(t)
	dir = s.dir
	addr := s.Addr()
	_, err := zkSession(t, addr).Create("/a", []byte("v"), 0, zk.WorldACL(zk.PermAll))
	wantNil(t, "create", err)
	if err := s.wipe(); err == nil {
		t.Error("wiped a running server")
	}

	s.Kill()
	s.Kill() // harmless
	if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		t.Fatal("a killed server accepts connections")
	}
	s.Restart()
	if !zkExists(t, addr, "/a") || s.Addr() != addr {
		t.Fatalf("after a restart on %s the node is gone", s.Addr())
	}
	s.Stop()
	s.Wipe()
	s.Restart()
	if zkExists(t, addr, "/a") {
		t.Fatal("the node outlived a wipe")
	}
}

func TestZooKeeperPause(t *testing.T) {
	t.Parallel()
	s := ZooKeeper(t)
	s.Pause()
	if answer, err := fourLetters(s.addr, "srvr"); err == nil {
		t.Fatalf("a paused server answers %q", answer)
	}
	s.Resume()
	wantNil(t, "after resume", waitUntil(startLimit, s.isReady))
	s.Pause() // and is removed while paused
}

// A session of a second ends soon after its client went silent.
func TestZooKeeperSessions(t *testing.T) {
	s := SharedZooKeeper(t)
	var lost net.Conn
	c, _, err := zk.Connect([]string{s.Addr()}, time.Second, zk.WithLogger(silent{}),
		zk.WithDialer(func(network, addr string, limit time.Duration) (net.Conn, error) {
			if lost != nil {
				return nil, errors.New("cut off")
			}
			conn, err := net.DialTimeout(network, addr, limit)
			lost = conn
			return conn, err
		}))
	wantNil(t, "connect", err)
	t.Cleanup(c.Close)
	_, err = c.Create("/sessions", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	wantNil(t, "create", err)
	wantNil(t, "cut off", lost.Close())
	watcher := zkSession(t, s.Addr())
	wantNil(t, "the session to end", waitUntil(20*time.Second, func() error {
		found, _, err := watcher.Exists("/sessions")
		if found {
			return errRunning
		}
		return err
	}))
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
