//go:build unix

package nemesis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// settings are environment variables.
type settings map[string]string

func (s settings) environ(dir string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	for k, v := range s {
		env = append(env, k+"="+v)
	}
	return env
}

// server says how a process that issues IDs is started.
type server struct {
	path string
	args []string
	env  settings
}

// proc is one such process, over all its lives.
type proc struct {
	t       *testing.T
	name    string
	server  server
	dir     string
	log     string                       // path of its output, of all lives
	baseURL atomic.Pointer[string]       // of the present life
	redis   atomic.Pointer[redis.Client] // asks the present life; nil for one that serves no Redis clients
	front   *Proxy                       // of the present life's address, for Go clients
	lives   int

	cmd     *exec.Cmd
	unguard func() // ends what kills the process when the test process is gone
}

// startProc starts a process and returns when it listens. It ends with the test.
func startProc(t *testing.T, name string, s server) *proc {
	t.Helper()
	dir := t.TempDir()
	p := &proc{t: t, name: name, server: s, dir: dir, log: filepath.Join(dir, "log"), front: newTestProxy(t, "127.0.0.1:1")}
	t.Cleanup(p.cleanUp)
	p.start()
	return p
}

// start begins a life of the process.
func (p *proc) start() {
	p.t.Helper()
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	p.cmd = exec.Command(p.server.path, p.server.args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.dir, p.server.env.environ(p.dir), out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the test alone
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.lives++
	if p.unguard, err = guard(p.cmd.Process.Pid); err != nil {
		_ = p.cmd.Process.Kill()
		p.t.Fatal(err)
	}
	until(p.t, p.name+" listens", func() error { return p.findURL() })
}

// guard starts a shell that waits for the end of a pipe, which the kernel closes when this
// process ends in whatever way, and kills a process then. unguard is for one that has ended
// already.
func guard(pid int) (unguard func(), err error) {
	sh := exec.Command("/bin/sh", "-c", `read -r _; kill -9 "$0" 2>/dev/null`, strconv.Itoa(pid))
	sh.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := sh.StdinPipe()
	if err == nil {
		err = sh.Start()
	}
	return func() {
		_ = sh.Process.Kill() // before the pipe's end lets it kill a stranger
		_ = sh.Wait()
		_ = pipe.Close()
	}, err
}

// findURL learns the address that this life's log names.
func (p *proc) findURL() error {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	found, resp := 0, ""
	for line := range bytes.Lines(raw) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal(line, &said) == nil && said.Msg == "listening" {
			found++
			url := "http://" + said.Addr
			p.baseURL.Store(&url)
			p.front.Switch(said.Addr)
		}
		if said.Msg == "listening for Redis clients" {
			resp = said.Addr
		}
	}
	if found < p.lives {
		return fmt.Errorf("%s has not said where it listens: %s", p.name, lastLines(raw, 5))
	}
	if resp != "" {
		p.hangUp(redis.NewClient(&redis.Options{Addr: resp, ReadTimeout: 5 * time.Second, MaxRetries: 1}))
	}
	return nil
}

// hangUp closes the Redis client of the last life and keeps that of the next, if any.
func (p *proc) hangUp(next *redis.Client) {
	if last := p.redis.Swap(next); last != nil {
		_ = last.Close()
	}
}

func (p *proc) url() string {
	if u := p.baseURL.Load(); u != nil {
		return *u
	}
	return ""
}

// kill ends the process as a power cut would; stopped ones die too.
func (p *proc) kill() {
	if p.cmd == nil || p.cmd.Process == nil || p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // the status is that of the kill
	if p.unguard != nil {
		p.unguard()
	}
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s: %v: %v", p.name, s, err)
	}
}

func (p *proc) cleanUp() {
	p.kill()
	p.hangUp(nil)
	if p.t.Failed() {
		p.t.Logf("end of the log of %s:\n%s", p.name, lastLines(p.output(), 15))
	}
}

func (p *proc) output() []byte {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Error(err)
	}
	return raw
}

// refusals counts what the tripwire said in all lives.
func (p *proc) refusals() int { return bytes.Count(p.output(), []byte(`indices refused`)) }

func lastLines(raw []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// waitLimit bounds every wait; it is far above what a busy machine needs.
const waitLimit = time.Minute

// until calls check until it returns nil, at most for waitLimit.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(waitLimit); ; time.Sleep(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s: %v", waitLimit, what, err)
		}
	}
}
