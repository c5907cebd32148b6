//go:build linux

package stories_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// buildHolders builds the program, a module of its own with the libraries.
func buildHolders(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holders")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir, build.Env = "testdata/holders", append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// madeBy are the IDs that a program has printed whole.
func madeBy(p *rig.Process) (ids []int64) {
	for line := range strings.Lines(p.Output()) {
		if digits, whole := strings.CutSuffix(line, "\n"); whole {
			if id, err := strconv.ParseInt(digits, 10, 64); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// TestLeaseRecipes: each library of docs/leases.md makes IDs of its name's layout, two processes of it none twice.
// They know nothing of shardid: `shardid lease` starts them, and ends with them.
func TestLeaseRecipes(t *testing.T) {
	check.Deep(t)
	story(t)
	program := buildHolders(t)
	d := prepared(t, nil,
		strings.Fields("names add --name bwmarrin --worker-bits 10 --seq-bits 12"),
		strings.Fields("names add --name sonyflake --worker-bits 16 --seq-bits 8 --epoch 1409529600000"),
		strings.Fields("names add --name yitter --worker-bits 6 --seq-bits 6 --epoch 1582136402000"))
	d.ready()
	for _, library := range []string{"bwmarrin", "sonyflake", "yitter"} {
		var both []*rig.Process
		for range 2 {
			lease := []string{"lease", "--name", library, "--url", d.url, "--", program, library}
			both = append(both, rig.Start(t, command(t, t.TempDir(), nil, lease...), filepath.Join(t.TempDir(), "log")))
		}
		for _, p := range both {
			eventually(t, startLimit, library+" makes IDs", func() bool { return len(madeBy(p)) > 100 })
		}
		books := &ledger{}
		for i, p := range both {
			p.Signal(syscall.SIGTERM)
			if code := p.Exit(startLimit); code != 128+int(syscall.SIGTERM) {
				t.Errorf("%s ended with %d: %s", library, code, rig.LastLines(p.Output(), 3))
			}
			books.Add(fmt.Sprint("process ", i), rig.List{App: -5}, madeBy(p)...)
		}
		books.Settle(t, library)
	}
}
