//go:build unix

package stories_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of clients whose Redis a story breaks
	rig.Main(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// story is the first line of every story.
func story(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	t.Parallel()
	begun := time.Now()
	t.Cleanup(func() { t.Logf("story took %v", time.Since(begun).Round(10*time.Millisecond)) })
}

type (
	settings = rig.Settings
	ledger   = rig.Ledger
)

// plain is the series of a mode that is not the queue.
var plain = rig.List{App: -1}

var eventually = rig.Eventually

// command is a shardid that is not started yet, in a folder of its own.
func command(t *testing.T, dir string, s settings, args ...string) *exec.Cmd {
	t.Helper()
	return s.Command(dir, rig.Binary(t), args...)
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
