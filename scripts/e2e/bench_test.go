//go:build unix

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/rig"
)

// benched is what `shardid bench --json` prints.
type benched struct {
	URL, Mode                                 string
	Duration, RequestsPerSecond, IDsPerSecond float64
	IntendedRate, AchievedRate                float64
	Requests, IDs, Duplicates, ComparedIDs    int64
	Unsent                                    int64
	Errors, BadAnswers                        map[string]int64
	Interrupted                               bool
	Latency                                   struct {
		P50, P90, P99, Max, Mean float64
		P999                     float64 `json:"p99.9"`
	}
}

// bench runs a short benchmark that has to succeed.
func bench(t *testing.T, d *daemon, args ...string) benched {
	t.Helper()
	args = append([]string{"bench", "--json", "--url", d.url, "--duration", "500ms", "--warmup", "100ms"}, args...)
	return fromBench(t, must(t, nil, args...))
}

func fromBench(t *testing.T, out string) (b benched) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return b
}

// TestE2EBench: every mode of a fresh shardid, single IDs and batches, at full speed
// and at a rate.
func TestE2EBench(t *testing.T) {
	story(t)
	d := serve(t, settings{"RESP_ADDR": "127.0.0.1:0"}, "--demo")
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").Status == "ok" })
	redis := "redis://" + d.respAddr()
	for _, mode := range []string{"queue", "segment", "snowflake", "uid"} {
		t.Run(mode, func(t *testing.T) {
			wantBench(t, bench(t, d, "--mode", mode), mode, 1)
			wantBench(t, bench(t, d, "--mode", mode, "--count", "50", "--concurrency", "4"), mode, 50)
			wantBench(t, bench(t, d, "--mode", mode, "--url", redis), mode, 1)
			wantBench(t, bench(t, d, "--mode", mode, "--url", redis, "--proto", "resp", "--pipeline", "16"), mode, 1)
			wantBench(t, bench(t, d, "--mode", mode, "--url", redis, "--count", "50", "--concurrency", "4"), mode, 50)
		})
	}
	t.Run("rate", func(t *testing.T) {
		b := bench(t, d, "--rate", "100", "--duration", "1s")
		wantBench(t, b, "queue", 1)
		if b.IntendedRate != 100 || b.Requests+b.Unsent != 100 {
			t.Errorf("%+v", b)
		}
	})
	t.Run("raw", func(t *testing.T) {
		if b := bench(t, d, "--raw", "/livez"); b.Requests == 0 || b.Mode != "raw" || b.IDs+b.ComparedIDs != 0 {
			t.Errorf("%+v", b)
		}
	})
}

func wantBench(t *testing.T, b benched, mode string, count int64) {
	t.Helper()
	if b.Mode != mode || b.Requests == 0 || b.IDs != b.Requests*count || b.Duplicates != 0 || len(b.Errors)+len(b.BadAnswers) > 0 {
		t.Errorf("%+v", b)
	}
	if b.ComparedIDs <= b.IDs || b.Duration < 0.5 || b.RequestsPerSecond <= 0 || b.AchievedRate < b.RequestsPerSecond ||
		b.IDsPerSecond < b.RequestsPerSecond {
		t.Errorf("%+v", b)
	}
	l := b.Latency
	if l.P50 <= 0 || l.P90 < l.P50 || l.P99 < l.P90 || l.P999 < l.P99 || l.Max < l.P999 || l.Mean <= 0 {
		t.Errorf("%+v", l)
	}
}

// TestE2EBenchDefaults: on the server's machine its configuration says where it is;
// the report is for people, and counts the shards' IDs once each.
func TestE2EBenchDefaults(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	d.ready()
	s := settings{"SERVER_ADDR": strings.TrimPrefix(d.url, "http://")}
	out := must(t, s, "bench", "--duration", "200ms")
	for _, part := range []string{"queue        " + d.url, "latency      p50 ", "p99.9 ", "errors       none", "duplicates   none among "} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}

// TestE2EBenchFails: a run whose IDs repeat fails, with the report and one line; one
// that cannot begin says what to do.
func TestE2EBenchFails(t *testing.T) {
	story(t)
	d := serve(t, settings{"RESP_ADDR": "127.0.0.1:0"}, "--demo")
	d.ready()
	repeats, garbage := repeater(t, "%d"), repeater(t, "ID-%d")
	for _, c := range []try{
		{"bench --mode uid --url " + repeats, 1, ``, "had come before, such as 50"},
		{"bench --mode uid --no-duplicates --url " + repeats, 0, ``, ""},
		{"bench --mode uid --url " + garbage, 1, ``, "is this a shardid"},
		{"bench --app 9 --url " + d.url, 1, ``, "app is not provisioned"},
		{"bench --app 9 --url redis://" + d.respAddr(), 1, ``, "app is not provisioned"},
		{"bench --proto resp --url " + strings.Replace(d.url, "http", "redis", 1), 1, ``, "resp.addr"},
		{"bench --url http://" + d.respAddr(), 1, ``, "or with redis://"},
		{"bench --proto resp --url " + d.url, 2, ``, "redis://127.0.0.1:6380"},
		{"bench --proto resp", 2, ``, "resp.addr is not set"},
		{"bench --pipeline 2 --url " + d.url, 2, ``, "redis://"},
		{"bench --mode segment --tag nothing --url " + d.url, 1, ``, "--tag"},
		{"bench --url http://127.0.0.1:1", 1, ``, "is the server running?"},
		{"bench --token-file none --url " + d.url, 1, ``, "none"},
		{"bench --url 127.0.0.1:8080", 2, ``, "http://127.0.0.1:8080"},
		{"bench --mode uuid --url " + d.url, 2, ``, "queue, segment, snowflake"},
		{"bench --concurrency 0 --url " + d.url, 2, ``, "concurrency"},
		{"bench --duration soon --url " + d.url, 2, ``, "duration"},
	} {
		c.in(t, t.TempDir(), nil, strings.Fields("--warmup 0s --duration 300ms")...)
	}
}

// repeater is a server that issues 1, 2, … and 50 once more.
func repeater(t *testing.T, form string) string {
	t.Helper()
	var last atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := last.Add(1)
		if n == 51 {
			n = 50
		}
		fmt.Fprintf(w, form, n)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestE2EBenchInterrupted: Ctrl-C ends the run, and the report is of what was done.
func TestE2EBenchInterrupted(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	d.ready()
	cmd := command(t, t.TempDir(), nil, "bench", "--json", "--url", d.url, "--warmup", "0s", "--duration", "1h")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	run := rig.Start(t, cmd, "")
	before := d.metric("shardid_queue_issued_total")
	eventually(t, startLimit, "load", func() bool { return d.metric("shardid_queue_issued_total") > before+1000 })
	run.Signal(syscall.SIGINT)
	if exit := run.Exit(time.Minute); exit != 0 || stderr.Len() > 0 {
		t.Fatalf("%d: %s", exit, stderr.String())
	}
	if b := fromBench(t, stdout.String()); !b.Interrupted || b.Requests < 900 || b.Duration > 60 || b.Duplicates != 0 {
		t.Errorf("%+v", b)
	}
}
