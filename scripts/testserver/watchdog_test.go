//go:build unix

package testserver

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// childEnv makes the test binary a child that starts a server, see child.
const childEnv = "TESTSERVER_CHILD"

// child starts a server of the kind, prints its process ID and waits: "exit"
// for a line from the parent, the others for kill -9.
func child(kind string) int {
	kind, how, _ := strings.Cut(kind, " ")
	s, err := map[string]func() (*server, error){
		"redis":     func() (*server, error) { s, err := startRedis(); return &s.server, err },
		"mariadb":   func() (*server, error) { s, err := startMariaDB(loopback); return &s.server, err },
		"zookeeper": func() (*server, error) { s, err := startZooKeeper(); return &s.server, err },
	}[kind]()
	if err == nil && how == "paused" {
		err = s.pause()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.pid)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

// startChild starts a child whose folders, temporary or of servers, are below tmp.
func startChild(t *testing.T, kind, tmp string) (cmd *exec.Cmd, out *bufio.Reader, finish func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind, "TMPDIR="+tmp, DataVariable+"="+tmp)
	in, err := cmd.StdinPipe()
	wantNil(t, "child stdin", err)
	stdout, err := cmd.StdoutPipe()
	wantNil(t, "child stdout", err)
	wantNil(t, "start child", cmd.Start())
	return cmd, bufio.NewReader(stdout), func() { _ = in.Close(); _ = cmd.Wait() }
}

// shortTemp is a folder with a path short enough to hold server folders.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dog-") //nolint:usetesting // t.TempDir is too long for a socket
	wantNil(t, "make folder", err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestServerEndsWithTestProcess(t *testing.T) {
	skipShort(t)
	for _, kind := range []string{"redis", "redis paused", "mariadb", "mariadb paused", "zookeeper", "zookeeper paused", "redis exit"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tmp := shortTemp(t)
			cmd, out, finish := startChild(t, kind, tmp)
			line, err := out.ReadString('\n')
			wantNil(t, "read child", err)
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			wantNil(t, "child", err)
			if !running(pid) || len(entries(tmp)) != 1 {
				t.Fatalf("server %d does not run in %v", pid, entries(tmp))
			}
			if kind != "redis exit" {
				wantNil(t, "kill child", cmd.Process.Kill())
			}
			finish()
			wantEnd(t, tmp, pid)
		})
	}
}

func wantEnd(t *testing.T, tmp string, pid int) {
	t.Helper()
	err := waitUntil(startLimit, func() error {
		if left := append(entries(tmp), commandsWith(tmp)...); len(left) > 0 || (pid != 0 && running(pid)) {
			return fmt.Errorf("left: server %d, %q", pid, left)
		}
		return nil
	})
	wantNil(t, "after the end of the test process", err)
}

func entries(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	return names
}

// commandsWith returns the command lines that mention dir, on Linux.
func commandsWith(dir string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(raw), dir) {
			found = append(found, string(raw))
		}
	}
	return found
}

func zombie(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}
