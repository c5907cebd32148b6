//go:build unix

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"shardid/scripts/rig"
)

type settings = rig.Settings

// daemon is a server under test, in a folder of its own.
type daemon struct {
	*rig.Process
	t   *testing.T
	url string
}

// startLimit is how long a server may take to listen on a busy machine.
const startLimit = 30 * time.Second

// serve starts a server and returns when it says where it listens. It ends with t,
// or before by Kill.
func serve(t *testing.T, env settings, path string, args ...string) *daemon {
	t.Helper()
	p := rig.Start(t, env.Command(t.TempDir(), path, args...), filepath.Join(t.TempDir(), "log"))
	return &daemon{Process: p, t: t, url: "http://" + p.Listens()}
}

// cpu is the time it has used; 0 where the system does not tell.
func (d *daemon) cpu() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, p, err := parseProcess(string(raw))
	if err != nil {
		d.t.Error(err)
	}
	return p.used
}

// cpuExactly is cpu in nanoseconds instead of ticks, of the threads there are: those
// of a Go program stay.
func (d *daemon) cpuExactly() (used time.Duration) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.Cmd.Process.Pid)) // the pattern is well formed
	for _, name := range names {
		raw, err := os.ReadFile(name)
		var ns int64
		if n, _ := fmt.Sscan(string(raw), &ns); err != nil || n != 1 {
			return d.cpu()
		}
		used += time.Duration(ns)
	}
	if len(names) == 0 {
		return d.cpu()
	}
	return used
}

// run runs a command to its end, for limit at most, and gives its standard output;
// an error has the end of what it said.
func run(cmd *exec.Cmd, limit time.Duration) ([]byte, error) {
	outs, errs := runAll([]*exec.Cmd{cmd}, limit)
	return outs[0], errs[0]
}

// runAll is run for some at the same time, all started by the calling thread.
func runAll(cmds []*exec.Cmd, limit time.Duration) (outs [][]byte, errs []error) {
	stdout, stderr := make([]bytes.Buffer, len(cmds)), make([]bytes.Buffer, len(cmds))
	outs, errs = make([][]byte, len(cmds)), make([]error, len(cmds))
	for i, cmd := range cmds {
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout[i], &stderr[i], time.Second
		errs[i] = cmd.Start()
	}
	end := time.Now().Add(limit)
	for i, cmd := range cmds {
		if errs[i] != nil {
			continue
		}
		if errs[i] = await(cmd, end); errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w\n%s", cmd, errs[i], rig.LastLines(stdout[i].String()+stderr[i].String(), 12))
		}
		outs[i] = stdout[i].Bytes()
	}
	return outs, errs
}

// await waits for the end of a command and kills it when it does not come in time.
func await(cmd *exec.Cmd, end time.Time) error {
	bound := time.AfterFunc(time.Until(end), func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !bound.Stop() {
		err = errors.Join(errors.New("it did not end in time"), err)
	}
	return err
}

// measurable waits for what a busy machine cannot do in time: then there is nothing to
// measure, which is no failure.
func measurable(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := rig.Within(limit, check); err != nil {
		t.Skipf("not within %v: %s: %v", limit, what, err)
	}
}
