//go:build unix

package testserver

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
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
	begin(t)
	ports, err := freePorts(2)
	wantNil(t, "free ports", err)
	for name, tc := range map[string]struct {
		picks  []int
		launch func(t *testing.T) func(port int) error
	}{
		"redis":   {[]int{taken(t), taken(t), ports[0]}, redisOnPort},
		"mariadb": {[]int{taken(t), ports[1]}, mariadbOnPort},
	} {
		t.Run(name, func(t *testing.T) {
			tries, launch := 0, tc.launch(t)
			pick := func(int) ([]int, error) { tries++; return []int{tc.picks[tries-1]}, nil }
			wantNil(t, "start", onPorts(1, pick, func(p []int) error { return launch(p[0]) }))
			if tries != len(tc.picks) {
				t.Errorf("%d tries, want %d", tries, len(tc.picks))
			}
		})
	}
}

func redisOnPort(t *testing.T) func(port int) error {
	s, err := startRedis()
	wantNil(t, "start", err)
	s.own(t)
	wantNil(t, "stop", s.stop())
	bin := s.argv[0]
	return func(port int) error {
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return s.launch(append([]string{bin}, redisArgs(port)...), s.isReady)
	}
}

func mariadbOnPort(t *testing.T) func(port int) error {
	s, err := startMariaDB()
	wantNil(t, "start", err)
	s.own(t)
	wantNil(t, "stop", s.stop())
	bin := s.argv[0]
	return func(port int) error {
		s.Port = port
		return s.launch(s.serverArgs(bin), s.isReady)
	}
}

// On a clash the one who answers may be somebody else's Redis.
func TestForeignRedisIsNotReady(t *testing.T) {
	a, b := Redis(t), Redis(t)
	b.Addr = a.Addr
	if err := b.isReady(); err == nil {
		t.Fatal("took another server for its own")
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(50)
	wantNil(t, "free ports", err)
	seen := map[int]bool{}
	for _, p := range ports {
		seen[p] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d different ports of 50", len(seen))
	}
}

func TestFailedStartShowsLog(t *testing.T) {
	begin(t)
	for name, start := range map[string]func() error{
		"redis":   func() error { _, err := startRedis("--no-such-option", "1"); return err },
		"mariadb": func() error { _, err := startMariaDB("--no-such-option"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := start()
			if !errors.Is(err, errExited) || !strings.Contains(err.Error(), "no-such-option") {
				t.Errorf("error does not show the log: %v", err)
			}
		})
	}
}

func TestControlOfMissingServer(t *testing.T) {
	s := Redis(t)
	s.Stop()
	s.Stop() // harmless
	for name, f := range map[string]func() error{"pause": s.pause, "resume": s.resume} {
		if err := f(); !errors.Is(err, errExited) {
			t.Errorf("%s of a stopped server: %v", name, err)
		}
	}
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
	t.Setenv("TMPDIR", "/tmp/"+strings.Repeat("x", 100))
	p, err := newProcess()
	wantNil(t, "new process", err)
	if n := len(p.path("s.sock")); n >= 100 {
		t.Errorf("socket path has %d bytes", n)
	}
	wantNil(t, "remove", p.remove())
}
