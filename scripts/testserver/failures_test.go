//go:build unix

package testserver

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// taken returns a port somebody listens on.
func taken(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	wantNil(t, "listen", err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// A port that was free when picked and is not when the server starts.
func TestPortClash(t *testing.T) {
	t.Parallel()
	redis, mariadb, zookeeper := Redis(t), MariaDB(t), ZooKeeper(t)
	free, err := freePorts(3)
	wantNil(t, "free ports", err)
	for name, c := range map[string]struct {
		server *server
		picks  []int
	}{
		"redis":     {&redis.server, []int{taken(t), taken(t), free[0]}},
		"mariadb":   {&mariadb.server, []int{taken(t), free[1]}},
		"zookeeper": {&zookeeper.server, []int{taken(t), free[2]}},
	} {
		t.Run(name, func(t *testing.T) {
			wantNil(t, "stop", c.server.stop())
			tries := 0
			wantNil(t, "start", c.server.startOn(func(int) ([]int, error) { tries++; return []int{c.picks[tries-1]}, nil }))
			check.Equal(t, tries, len(c.picks), "tries")
		})
	}
}

// On a clash the one who answers may be somebody else's server.
func TestForeignServerIsNotReady(t *testing.T) {
	redis, zookeeper := Redis(t), ZooKeeper(t)
	redis.Addr, zookeeper.addr = SharedRedis(t).Addr, SharedZooKeeper(t).addr
	for _, err := range []error{redis.isReady(), zookeeper.isReady()} {
		if err == nil || !strings.Contains(err.Error(), " belongs to ") {
			t.Errorf("took another server for its own: %v", err)
		}
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(50)
	wantNil(t, "free ports", err)
	seen := map[int]bool{}
	for _, p := range ports {
		seen[p] = true
	}
	check.Equal(t, len(seen), 50, "different ports")
}

func TestFailedStartShowsLog(t *testing.T) {
	t.Parallel()
	skipShort(t)
	for name, start := range map[string]func() error{
		"redis":     func() error { _, err := startRedis("--no-such-option", "1"); return err },
		"mariadb":   func() error { _, err := startMariaDB(loopback, "--no-such-option"); return err },
		"zookeeper": func() error { _, err := startZooKeeper("tickTime=no-such-option"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := start()
			if !errors.Is(err, errExited) || !strings.Contains(err.Error(), "no-such-option") {
				t.Errorf("error does not show the log: %v", err)
			}
		})
	}
}

// A server is stopped and started whatever it does at the moment; what only a running one
// can do fails for another.
func TestControl(t *testing.T) {
	t.Parallel()
	redis, zookeeper := Redis(t), ZooKeeper(t)
	redis.Restart() // of a running server
	redis.Pause()
	redis.Pause() // harmless
	redis.Stop()  // resumes it first
	redis.Stop()  // harmless
	redis.Kill()  // likewise
	for name, f := range map[string]func() error{"pause": redis.pause, "resume": redis.resume} {
		if err := f(); !errors.Is(err, errExited) {
			t.Errorf("%s of a stopped server: %v", name, err)
		}
	}
	check.Is(t, zookeeper.wipe(), errRunning, "wipe of a running server")
	redis.Restart()
	redis.Pause() // and is removed while paused
}

func TestMissingBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findBinary("redis-server", nil, "redis-server")
	if err == nil {
		t.Fatal("found in an empty PATH")
	}
	for _, part := range []string{"Debian package redis-server", "make test", "scripts/install-test-servers.sh"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func TestBinaryOutsidePath(t *testing.T) {
	t.Setenv("PATH", "")
	dir := t.TempDir()
	wantNil(t, "write", os.WriteFile(dir+"/some-server", []byte("#!/bin/sh\n"), 0o700))
	got, err := findBinary("some", []string{"/nonexistent", dir}, "other-server", "some-server")
	if got != dir+"/some-server" {
		t.Errorf("found %q, %v", got, err)
	}
}

func TestLongTempDir(t *testing.T) {
	t.Setenv(DataVariable, "/tmp/"+strings.Repeat("x", 100))
	p, err := newProcess()
	wantNil(t, "new process", err)
	if n := len(p.path("s.sock")); n >= 100 {
		t.Errorf("socket path has %d bytes", n)
	}
	wantNil(t, "remove", p.remove())
}
