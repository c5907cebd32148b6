// Package rig drives shardid from outside, for the tests of scripts/e2e, scripts/nemesis and
// scripts/bench: processes, their settings, callers, and a ledger of all IDs that came.
package rig

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Settings are SHARDID_ variables, named without that prefix; those that begin with GO are
// the Go runtime's, and have none.
type Settings map[string]string

// With returns a copy with further settings; more wins.
func (s Settings) With(more Settings) Settings {
	out := Settings{}
	for _, m := range []Settings{s, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// Environ is a whole environment with home in dir: nothing of the caller's is in it but the path.
func (s Settings) Environ(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	for k, v := range s {
		if !strings.HasPrefix(k, "GO") {
			k = "SHARDID_" + k
		}
		env = append(env, k+"="+v)
	}
	return env
}

// Command is a program that runs in dir with these settings and is not started yet.
func (s Settings) Command(dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, s.Environ(dir)
	return cmd
}

// Eventually asks every 20 ms until check is true, and returns how long that took; the test
// ends when it takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, what string, check func() bool) time.Duration {
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

// Until is Eventually for a check that says what is wrong, asked as Within does.
func Until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := Within(limit, check); err != nil {
		t.Fatalf("not within %v: %s: %v", limit, what, err)
	}
}

// Within asks every 5 ms until check returns nil, for limit at most; it returns the last error.
func Within(limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
