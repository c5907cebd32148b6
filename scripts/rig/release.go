//go:build unix

package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Release builds the shardid of a commit and returns its path. It stays in the user's cache, as it
// never changes; a test that has no git history, or not what the commit needs, is skipped.
func Release(t testing.TB, commit string) string {
	t.Helper()
	full, err := exec.Command("git", "rev-parse", "--quiet", "--verify", commit+"^{commit}").Output()
	if err != nil {
		t.Skipf("no commit %s here to build the release of: a shallow clone, or no git: %v", commit, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	path := filepath.Join(cache, "shardid", "releases", "shardid-"+strings.TrimSpace(string(full)))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	source, built := t.TempDir(), fmt.Sprint(path, ".", os.Getpid())
	if err := unpack(commit, source); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-tags", "nomsgpack", "-o", built, "./cmd/shardid")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("commit %s cannot be built here: %v\n%s", commit, err, out)
	}
	if err := os.Rename(built, path); err != nil { // at once, as others may build it too
		t.Fatal(err)
	}
	return path
}

// unpack writes what a build of a commit needs into a folder.
func unpack(commit, dir string) error {
	const script = `cd "$(git rev-parse --show-toplevel)" &&
		git archive "$1" -- client cmd docs go.mod go.sum model repository service sql config.yaml | tar -x -C "$2"`
	out, err := exec.Command("/bin/sh", "-c", script, "unpack", commit, dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("git archive %s: %w\n%s", commit, err, out)
	}
	return nil
}
