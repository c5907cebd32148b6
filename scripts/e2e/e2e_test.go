//go:build unix

package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/testserver"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testserver.Main(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(binaryDir()); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: remove the binary:", err)
		}
		os.Exit(code)
	}))
}

func binaryDir() string {
	return filepath.Join(os.TempDir(), "shardid-e2e-"+strconv.Itoa(os.Getpid()))
}

// binary builds shardid once and gives its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir(), "shardid")
	out, err := exec.Command("go", "build", "-o", path, "shardid/cmd/shardid").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build shardid: %w\n%s", err, out)
	}
	return path, nil
})

// story is the first line of every e2e test.
func story(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	begun := time.Now()
	t.Cleanup(func() { t.Logf("story took %v", time.Since(begun).Round(10*time.Millisecond)) })
}

// settings are SHARDID_ variables, named without that prefix.
type settings map[string]string

// with returns a copy with further variables; more wins.
func (s settings) with(more settings) settings {
	out := settings{}
	for _, m := range []settings{s, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// environ is a whole environment: nothing of the caller's reaches shardid but
// the path.
func (s settings) environ(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	for k, v := range s {
		env = append(env, "SHARDID_"+k+"="+v)
	}
	return env
}

// command is a shardid that is not started yet, in a folder of its own.
func command(t *testing.T, dir string, s settings, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, s.environ(dir)
	return cmd
}

// outcome is what a command left.
type outcome struct {
	exit           int
	stdout, stderr string
	audit          []string // lines that administration left on stderr; they are not in stderr
}

// shardid runs a command to its end, in a folder of its own.
func shardid(t *testing.T, s settings, args ...string) outcome {
	t.Helper()
	return shardidIn(t, t.TempDir(), s, args...)
}

func shardidIn(t *testing.T, dir string, s settings, args ...string) outcome {
	t.Helper()
	cmd := command(t, dir, s, args...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bound := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer bound.Stop()
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	o := outcome{exit: cmd.ProcessState.ExitCode(), stdout: stdout.String()}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, `"msg":"audit"`) {
			o.audit = append(o.audit, line)
		} else {
			o.stderr += line
		}
	}
	return o
}

// must runs a command that has to succeed and gives its output.
func must(t *testing.T, s settings, args ...string) string {
	t.Helper()
	o := shardid(t, s, args...)
	if o.exit != 0 || o.stderr != "" {
		t.Fatalf("shardid %s: %+v", strings.Join(args, " "), o)
	}
	return o.stdout
}

// eventually polls until check is true; it gives how long that took.
func eventually(t *testing.T, limit time.Duration, what string, check func() bool) time.Duration {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if check() {
			return time.Since(begun)
		}
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
