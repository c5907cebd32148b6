//go:build unix

package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
	mode  string // of shardid bench
	app   int    // queue
	apps  int    // how many from app on, all lists of each; 0 is one app, as bench has it
	keys  int    // sequence
	count int    // IDs a request, 0 for a single one
	// rate is requests a second, their latency counted from when they were due; 0
	// has each connection send the next when the answer came.
	rate     int
	exact    bool   // look for duplicates, which costs the load time and memory
	proto    string // resp; "" is http
	pipeline int    // commands sent together over RESP, 0 for one
	raw      string // this path, in place of a mode
}

// loaded is what `shardid bench --json` says.
type loaded struct {
	Requests          int64            `json:"requests"`
	IDs               int64            `json:"ids"`
	Errors            map[string]int64 `json:"errors"`
	BadAnswers        map[string]int64 `json:"badAnswers"`
	Unsent            int64            `json:"unsent"`
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

func (r request) args(url string, warmup, length time.Duration) []string {
	args := []string{"bench", "--json", "--url", url, "--concurrency", strconv.Itoa(concurrency),
		"--warmup", warmup.String(), "--duration", length.String()}
	if r.raw != "" {
		return append(args, "--raw", r.raw)
	}
	args = append(args, "--mode", r.mode)
	if r.proto != "" {
		args = append(args, "--proto", r.proto)
	}
	if r.pipeline > 0 {
		args = append(args, "--pipeline", strconv.Itoa(r.pipeline))
	}
	if r.mode == "queue" {
		args = append(args, "--app", strconv.Itoa(r.app))
	}
	if r.apps > 0 {
		args = append(args, "--apps", strconv.Itoa(r.apps), "--passes", strconv.Itoa(r.apps*model.Shards))
	}
	if r.mode == "sequence" {
		args = append(args, "--space", chat, "--passes", strconv.Itoa(r.keys))
	}
	if r.count > 0 {
		args = append(args, "--count", strconv.Itoa(r.count))
	}
	if r.rate > 0 {
		args = append(args, "--rate", strconv.Itoa(r.rate))
	}
	if !r.exact {
		args = append(args, "--no-duplicates")
	}
	return args
}

// load runs the load generator against url, on the core of the load.
func (s *suite) load(t *testing.T, url string, r request, warmup, length time.Duration) loaded {
	t.Helper()
	return s.loads(t, []string{url}, r, warmup, length)[0]
}

// loads runs one against each URL at the same time.
func (s *suite) loads(t *testing.T, urls []string, r request, warmup, length time.Duration) []loaded {
	t.Helper()
	cmds, all := make([]*exec.Cmd, len(urls)), make([]loaded, len(urls))
	for i, url := range urls {
		cmds[i] = exec.Command(s.shardid, r.args(url, warmup, length)...)
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
	case len(l.Errors) > 0 || len(l.BadAnswers) > 0:
		return l, fmt.Errorf("errors: %v, bad answers: %v", l.Errors, l.BadAnswers)
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

func TestParseLoaded(t *testing.T) {
	const good = `{"requests":900,"ids":900,"errors":{},"duplicates":0,"requestsPerSecond":300.5,"latency":{"p50":1,"p99":2.5,"p99.9":4,"max":9}}`
	l, err := parseLoaded([]byte(good))
	if f := l.figures(); err != nil || f["req/s"] != 300.5 || f["p99 ms"] != 2.5 || f["p99.9 ms"] != 4 {
		t.Errorf("%v, %v", f, err)
	}
	for _, bad := range []string{
		``, `{}`,
		`{"requests":900,"requestsPerSecond":300,"duplicates":1}`,
		`{"requests":900,"requestsPerSecond":300,"errors":{"503 -4":1}}`,
		`{"requests":900,"requestsPerSecond":300,"badAnswers":{"an ID below 1":1}}`,
	} {
		if l, err := parseLoaded([]byte(bad)); err == nil {
			t.Errorf("%q gave %+v", bad, l)
		}
	}
}

func TestRequestArgs(t *testing.T) {
	for _, c := range []struct {
		r    request
		want string
	}{
		{request{mode: "queue", app: 3, rate: 500}, "--mode queue --app 3 --rate 500 --no-duplicates"},
		{request{mode: "queue", apps: 256}, "--mode queue --app 0 --apps 256 --passes 16384 --no-duplicates"},
		{request{mode: "uid", count: 100, exact: true}, "--mode uid --count 100"},
		{request{mode: "uid", proto: "resp", pipeline: 16, exact: true}, "--mode uid --proto resp --pipeline 16"},
		{request{mode: "sequence", keys: 1000, rate: 100}, "--mode sequence --space chat --passes 1000 --rate 100 --no-duplicates"},
		{request{raw: "/x"}, "--raw /x"},
	} {
		got := strings.Join(c.r.args("http://x", time.Second, time.Minute), " ")
		got = strings.Replace(got, " --concurrency 64 --warmup 1s --duration 1m0s", "", 1)
		if got != "bench --json --url http://x "+c.want {
			t.Errorf("%+v: %s", c.r, got)
		}
	}
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
