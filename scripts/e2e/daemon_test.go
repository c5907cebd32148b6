//go:build unix

package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemon is one `shardid serve`.
type daemon struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    string // path of its stderr
	url    string
	client *http.Client
	ended  chan struct{} // closed when the process has been reaped
}

// startLimit is how long a process may take to listen on a busy machine.
const startLimit = 30 * time.Second

// serve starts shardid on a free port in a new folder and returns when it
// listens.
func serve(t *testing.T, s settings, args ...string) *daemon {
	t.Helper()
	return serveIn(t, t.TempDir(), s, args...)
}

func serveIn(t *testing.T, dir string, s settings, args ...string) *daemon {
	t.Helper()
	return listening(t, launch(t, dir, s, args...))
}

// serveBy is serve with a command that is changed first.
func serveBy(t *testing.T, s settings, change func(*exec.Cmd), args ...string) *daemon {
	t.Helper()
	return listening(t, launchBy(t, t.TempDir(), s, change, args...))
}

func listening(t *testing.T, d *daemon) *daemon {
	t.Helper()
	eventually(t, startLimit, "shardid listens", func() bool {
		d.url = d.address()
		return d.url != "" || d.gone()
	})
	if d.url == "" {
		t.Fatalf("shardid ended: %s", d.output())
	}
	return d
}

// launch starts shardid and returns at once.
func launch(t *testing.T, dir string, s settings, args ...string) *daemon {
	t.Helper()
	return launchBy(t, dir, s, func(*exec.Cmd) {}, args...)
}

func launchBy(t *testing.T, dir string, s settings, change func(*exec.Cmd), args ...string) *daemon {
	t.Helper()
	d := &daemon{
		t: t, ended: make(chan struct{}), log: filepath.Join(t.TempDir(), "log"),
		cmd:    command(t, dir, s, append([]string{"serve", "--server.addr", "127.0.0.1:0"}, args...)...),
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
	change(d.cmd)
	out, err := os.Create(d.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	d.cmd.Stdout, d.cmd.Stderr = out, out
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	unguard := guard(t, d.cmd.Process.Pid)
	go func() {
		_ = d.cmd.Wait() // the status is in ProcessState
		unguard()
		close(d.ended)
	}()
	t.Cleanup(d.cleanUp)
	return d
}

// guard kills pid when the test process ends without its cleanup: a shell waits
// for the end of a pipe that only the kernel closes then.
func guard(t *testing.T, pid int) (release func()) {
	t.Helper()
	dog := exec.Command("/bin/sh", "-c", `read -r _; kill -9 "$0" 2>/dev/null`, strconv.Itoa(pid))
	pipe, err := dog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dog.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = dog.Process.Kill() // first, so that it never sees the pipe's end
		_ = dog.Wait()
		_ = pipe.Close()
	}
}

func (d *daemon) cleanUp() {
	d.kill()
	d.client.CloseIdleConnections()
	if d.t.Failed() {
		out := strings.Split(strings.TrimSpace(d.output()), "\n")
		d.t.Logf("shardid %d, end of its log:\n%s", d.cmd.Process.Pid, strings.Join(out[max(0, len(out)-12):], "\n"))
	}
}

// kill ends the process as a power cut would; one that is gone stays so.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
}

func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

func (d *daemon) gone() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// exit waits for the end and gives the exit status.
func (d *daemon) exit(limit time.Duration) int {
	d.t.Helper()
	eventually(d.t, limit, "shardid ends", d.gone)
	return d.cmd.ProcessState.ExitCode()
}

// output is everything the process has written.
func (d *daemon) output() string {
	raw, err := os.ReadFile(d.log)
	if err != nil {
		d.t.Error(err)
	}
	return string(raw)
}

// lines gives the log lines that hold every one of words.
func (d *daemon) lines(words ...string) (found []string) {
	for line := range strings.Lines(d.output()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			found = append(found, line)
		}
	}
	return found
}

// address is the URL that the log names, "" before it does.
func (d *daemon) address() string {
	for _, line := range d.lines(`"msg":"listening"`) {
		var said struct{ Addr string }
		if json.Unmarshal([]byte(line), &said) == nil {
			return "http://" + said.Addr
		}
	}
	return ""
}

// answer is an HTTP answer, with the fields of both shapes of JSON.
type answer struct {
	status  int
	header  http.Header
	body    string
	took    time.Duration
	closes  bool // the server closes the connection after it
	Code    int
	Message string
	Status  string // of the health endpoints
	ID      int64
	IDStr   string
	IDs     []json.RawMessage
}

// do sends a request; header is a list of names and values.
func (d *daemon) do(method, target string, header ...string) (a answer, err error) {
	req, err := http.NewRequest(method, d.url+target, nil)
	if err != nil {
		return a, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return d.send(req)
}

// send sends a request as it is.
func (d *daemon) send(req *http.Request) (a answer, err error) {
	begun := time.Now()
	resp, err := d.client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a.status, a.header, a.body, a.took, a.closes = resp.StatusCode, resp.Header, string(raw), time.Since(begun), resp.Close
	if err == nil && strings.HasPrefix(string(raw), "{") && strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		err = json.Unmarshal(raw, &a)
	}
	return a, err
}

// get is do with GET, for the goroutine of the test.
func (d *daemon) get(target string) answer {
	d.t.Helper()
	a, err := d.do(http.MethodGet, target)
	if err != nil {
		d.t.Fatalf("GET %s: %v", target, err)
	}
	return a
}

// want gets target and checks status and code.
func (d *daemon) want(target string, status, code int) answer {
	d.t.Helper()
	a := d.get(target)
	if a.status != status || a.Code != code {
		d.t.Fatalf("GET %s: %d %s, want %d and code %d", target, a.status, a.body, status, code)
	}
	return a
}
