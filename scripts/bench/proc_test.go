//go:build unix

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// settings are environment variables.
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

// environ is a whole environment: nothing of the caller's comes in but the path.
func (s settings) environ(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	for k, v := range s {
		env = append(env, k+"="+v)
	}
	return env
}

// shardidSettings name shardid's own variables without their prefix; those of the Go
// runtime have none.
func shardidSettings(s settings) settings {
	out := settings{}
	for k, v := range s {
		if !strings.HasPrefix(k, "GO") {
			k = "SHARDID_" + k
		}
		out[k] = v
	}
	return out
}

// daemon is a server under test, in a folder of its own.
type daemon struct {
	t     *testing.T
	dir   string
	log   string
	url   string
	begun time.Time // when it was started

	cmd   *exec.Cmd
	guard *exec.Cmd // kills it when this process is gone
	pipe  interface{ Close() error }
}

// startLimit is how long a server may take to listen on a busy machine.
const startLimit = 30 * time.Second

// serve starts a server and returns when it says where it listens. It ends with t,
// or before by kill.
func serve(t *testing.T, dir string, env settings, path string, args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, dir: dir, log: filepath.Join(t.TempDir(), "log")}
	out, err := os.Create(d.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	d.cmd = exec.Command(path, args...)
	d.cmd.Dir, d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = dir, env.environ(dir), out, out
	d.begun = time.Now()
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.cleanUp)
	d.watch()
	eventually(t, startLimit, filepath.Base(path)+" listens", d.findURL)
	return d
}

// watch starts the guard: a shell that waits for the end of a pipe, which the
// kernel closes when this process ends in whatever way.
func (d *daemon) watch() {
	d.t.Helper()
	d.guard = exec.Command("/bin/sh", "-c", `read -r _; kill -9 "$0" 2>/dev/null`, strconv.Itoa(d.cmd.Process.Pid))
	d.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	pipe, err := d.guard.StdinPipe()
	if err == nil {
		d.pipe = pipe
		err = d.guard.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) findURL() error {
	addr, err := d.said("listening")
	d.url = "http://" + addr
	return err
}

// said is the address in the log line with that message.
func (d *daemon) said(msg string) (addr string, err error) {
	raw, err := os.ReadFile(d.log)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(raw) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal(line, &said) == nil && said.Msg == msg {
			return said.Addr, nil
		}
	}
	return "", fmt.Errorf("no line %q in its log:\n%s", msg, lastLines(raw, 5))
}

// kill ends the server and waits for that.
func (d *daemon) kill() {
	if d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait() // the status is that of the kill
	if d.guard != nil && d.guard.Process != nil {
		_ = d.guard.Process.Kill() // before the pipe's end lets it kill a stranger
		_ = d.guard.Wait()
		_ = d.pipe.Close()
	}
}

func (d *daemon) cleanUp() {
	d.kill()
	raw, err := os.ReadFile(d.log)
	if d.t.Failed() && err == nil {
		d.t.Logf("end of the log of %s:\n%s", d.cmd, lastLines(raw, 15))
	}
}

// cpu is the time it has used; 0 where the system does not tell.
func (d *daemon) cpu() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
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
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.cmd.Process.Pid)) // the pattern is well formed
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

// memory is the resident set, in MiB; 0 where the system does not tell.
func (d *daemon) memory() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

func lastLines(raw []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
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
			errs[i] = fmt.Errorf("%s: %w\n%s", cmd, errs[i], lastLines(append(stdout[i].Bytes(), stderr[i].Bytes()...), 12))
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

// eventually calls check until it returns nil, at most for limit.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := within(limit, check); err != nil {
		t.Fatalf("not within %v: %s: %v", limit, what, err)
	}
}

// measurable is eventually for what a busy machine cannot do in time: then there is
// nothing to measure, which is no failure.
func measurable(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := within(limit, check); err != nil {
		t.Skipf("not within %v: %s: %v", limit, what, err)
	}
}

func within(limit time.Duration, check func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
