//go:build unix

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// request is what a load asks for, over and over.
type request struct {
	mode  string // of shardid bench
	app   int    // queue
	count int    // IDs a request, 0 for a single one
	// rate is requests a second, their latency counted from when they were due; 0
	// has each connection send the next when the answer came.
	rate  int
	exact bool // look for duplicates, which costs the load time and memory
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
	args := []string{"bench", "--json", "--url", url, "--mode", r.mode, "--concurrency", strconv.Itoa(concurrency),
		"--warmup", warmup.String(), "--duration", length.String()}
	if r.mode == "queue" {
		args = append(args, "--app", strconv.Itoa(r.app))
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
	cmd := exec.Command(s.shardid, r.args(url, warmup, length)...)
	cmd.Dir, cmd.Env = t.TempDir(), settings{"GOMAXPROCS": s.procs()}.environ("/")
	var out []byte
	var err error
	s.onLoadCore(t, func() { out, err = run(cmd, warmup+length+time.Minute) })
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLoaded(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got.cores = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / (warmup + length).Seconds()
	return got
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
