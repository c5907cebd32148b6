//go:build unix

package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// request is what a load asks for, over and over.
type request struct {
	mode  string // queue, segment, snowflake, uid or sequence
	app   int    // queue
	apps  int    // how many from app on, all lists of each; 0 is one app
	keys  int    // sequence
	count int    // IDs a request, 0 for a single one
	// rate is requests a second, their latency counted from when they were due; 0
	// has each connection send the next when the answer came.
	rate     int
	exact    bool   // look for duplicates, which costs the load most of its speed
	pipeline int    // commands sent together over RESP, 0 for one
	raw      string // this path, in place of a mode
}

// loaded is what the load says, and `shardid bench --json` too.
type loaded struct {
	Requests          int64            `json:"requests"`
	IDs               int64            `json:"ids"`
	Errors            map[string]int64 `json:"errors"`
	Duplicates        int64            `json:"duplicates"`
	RequestsPerSecond float64          `json:"requestsPerSecond"`
	Latency           struct {
		P50  float64 `json:"p50"`
		P99  float64 `json:"p99"`
		P999 float64 `json:"p99.9"`
		Max  float64 `json:"max"`
	} `json:"latency"` // ms

	cores float64 // that the load itself used
}

// concurrency is the number of connections, that of the project's goals.
const concurrency = 64

// command is a load of url, which is not started yet. It looks for duplicates by shardid bench, and
// asks with no more effort than it must if it does not.
func (r request) command(s *suite, url string, warmup, length time.Duration) *exec.Cmd {
	if !r.exact {
		cmd := exec.Command(s.loader, url, strconv.Itoa(concurrency), warmup.String(), length.String(), strconv.Itoa(r.rate),
			strconv.Itoa(max(1, r.pipeline)))
		cmd.Stdin = strings.NewReader(strings.Join(r.lines(strings.HasPrefix(url, "redis:")), "\n"))
		return cmd
	}
	return exec.Command(s.shardid, "bench", "--json", "--url", url, "--concurrency", strconv.Itoa(concurrency),
		"--duration", length.String(), "--mode", r.mode, "--app", strconv.Itoa(r.app), "--count", strconv.Itoa(r.count))
}

// lines are what the load asks for: paths, or commands of RESP.
func (r request) lines(resp bool) (lines []string) {
	passes := 1024
	if r.apps > 0 {
		passes = r.apps * model.Shards
	}
	if r.mode == "sequence" {
		passes = r.keys
	}
	for i := range passes {
		// The last characters of 64 in a row follow each other: all shards are asked alike.
		name := fmt.Sprintf("bench-%d-%c", i/model.Shards, '?'+i%model.Shards)
		app, and := r.app+i/model.Shards%max(1, r.apps), ""
		if r.count > 0 {
			and = fmt.Sprint("&count=", r.count)
		}
		line := map[string]string{
			"queue":     fmt.Sprintf("/get?appId=%d&gatePass=%s%s", app, url.QueryEscape(name), and),
			"segment":   segmentPath,
			"snowflake": "/api/snowflake/get/bench",
			"uid":       "/api/uid/get",
			"sequence":  "/v1/sequence/" + chat + "/ids?key=" + url.QueryEscape(name),
			"":          r.raw,
		}[r.mode]
		if resp {
			key := fmt.Sprintf("queue:%d:%s", app, name)
			if r.mode == "sequence" {
				key = "sequence:" + chat + ":" + name
			}
			if line = "INCR " + key; r.count > 0 {
				line = fmt.Sprint("LPOP ", key, " ", r.count)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// load runs the load against url, on its core.
func (s *suite) load(t *testing.T, url string, r request, warmup, length time.Duration) loaded {
	t.Helper()
	return s.loads(t, []string{url}, r, warmup, length)[0]
}

// loads runs one against each URL at the same time.
func (s *suite) loads(t *testing.T, urls []string, r request, warmup, length time.Duration) []loaded {
	t.Helper()
	cmds, all := make([]*exec.Cmd, len(urls)), make([]loaded, len(urls))
	for i, url := range urls {
		cmds[i] = r.command(s, url, warmup, length)
		cmds[i].Dir, cmds[i].Env = t.TempDir(), settings{"GOMAXPROCS": s.procs()}.Environ("/")
	}
	outs, errs := make([][]byte, len(urls)), make([]error, len(urls))
	s.onLoadCore(t, func() { outs, errs = runAll(cmds, warmup+length+time.Minute) })
	for i, cmd := range cmds {
		got, err := parseLoaded(outs[i])
		if err := cmp.Or(errs[i], err); err != nil {
			t.Fatalf("%v\n%s", err, outs[i])
		}
		got.cores = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / (warmup + length).Seconds()
		all[i] = got
	}
	return all
}

// parseLoaded reads a report; one with errors or duplicates measures nothing.
func parseLoaded(out []byte) (l loaded, err error) {
	if err := json.Unmarshal(out, &l); err != nil {
		return l, fmt.Errorf("read the report of the load: %w", err)
	}
	switch {
	case l.Duplicates > 0:
		return l, fmt.Errorf("%d duplicates", l.Duplicates)
	case len(l.Errors) > 0:
		return l, fmt.Errorf("errors: %v", l.Errors)
	case l.Requests == 0 || l.RequestsPerSecond <= 0:
		return l, errors.New("nothing was answered")
	}
	return l, nil
}

// figures are those of a load for the report.
func (l loaded) figures() figures {
	return figures{"req/s": l.RequestsPerSecond, "p50 ms": l.Latency.P50, "p99 ms": l.Latency.P99, "p99.9 ms": l.Latency.P999,
		"max ms": l.Latency.Max, "cores of the load": l.cores}
}

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
	p, err := procfs.NewProc(d.Cmd.Process.Pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	check.OK(d.t, err)
	return used(stat)
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
