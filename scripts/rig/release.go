//go:build unix

package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"shardid/scripts/check"
)

// Release builds the shardid of a commit and returns its path. It stays in the user's cache, as it
// never changes; a test that has no git history, or not what the commit needs, is skipped.
func Release(t testing.TB, commit string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	check.Must(t, err)
	path := filepath.Join(cache, "shardid", "releases", "shardid-"+commit)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	const script = `cd "$(git rev-parse --show-toplevel)"
		git archive "$1" -- client cmd docs go.mod go.sum model repository service sql config.yaml | tar -x -C "$2"
		cd "$2"
		CGO_ENABLED=0 GOFLAGS= GOWORK=off go build -tags nomsgpack -o "$3.$$" ./cmd/shardid
		mv "$3.$$" "$3"` // at once, as others may build it too
	out, err := exec.Command("/bin/sh", "-ec", script, "release", commit, t.TempDir(), path).CombinedOutput()
	if err != nil {
		t.Skipf("commit %s cannot be built here, as in a shallow clone: %v\n%s", commit, err, out)
	}
	return path
}
