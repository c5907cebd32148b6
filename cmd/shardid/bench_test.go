package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/loadgen"

	"github.com/spf13/cobra"
)

// benchReport is a run with something of everything.
func benchReport() *loadgen.Report {
	return &loadgen.Report{
		URL: "http://127.0.0.1:8080", Mode: loadgen.ModeQueue, Requests: 1_234_567, IDs: 2_469_134,
		Errors:     map[string]int64{"timeout": 2, "503 code -4": 30},
		Breaches:   map[string]int64{"an ID below 1": 1},
		FirstError: "the server answered: the list is empty",
		Duration:   10, RequestsPerSecond: 123_456.7, IDsPerSecond: 246_913.4, IntendedRate: 200_000, AchievedRate: 123_460, Unsent: 765_400,
		Latency:    loadgen.Latency{P50: 0.15, P90: 1.5, P99: 15, P999: 150, Max: 1500, Mean: 2},
		Duplicates: 3, FirstDuplicates: []int64{16385, 32769}, Compared: 2_000_000, NotCompared: 500_000,
	}
}

// textOf is the report as bench prints it.
func textOf(t *testing.T, r *loadgen.Report) string {
	t.Helper()
	var out strings.Builder
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	check.Must(t, new(cli).print(cmd, nil, func(w io.Writer) { printReport(w, r) }))
	return out.String()
}

func TestBenchText(t *testing.T) {
	out := textOf(t, benchReport())
	want := `queue        http://127.0.0.1:8080, 10s measured
requests     1,234,567  123,456/s
IDs          2,469,134  246,913/s
rate         200000/s intended, 123460/s achieved, 765,400 due and not sent in time: the latencies count how long they had waited
latency      p50 0.150ms  p90 1.50ms  p99 15.0ms  p99.9 150ms  max 1500ms  mean 2.00ms
errors       30 × 503 code -4, 2 × timeout
first error  the server answered: the list is empty
bad answers  1 × an ID below 1
duplicates   3 among 2,000,000 IDs, such as 16385, 32769; 500,000 more were not compared: --compare sets how many are
`
	check.Equal(t, out, want)
}

func TestBenchTextShort(t *testing.T) {
	for want, r := range map[string]*loadgen.Report{
		"duplicates   none among 1,000 IDs, warm-up included\n": {Mode: loadgen.ModeUID, Compared: 1000},
		"duplicates   not looked for\n":                         {Mode: loadgen.ModeUID, NotCompared: 1000},
		"errors    none\n":                                      {Mode: rawMode},
		"raw       , 0s measured, interrupted\n":                {Mode: rawMode, Interrupted: true},
	} {
		if out := textOf(t, r); !strings.Contains(out, want) {
			t.Errorf("%swant %s", out, want)
		}
	}
}

// TestBenchJSON: other programs read these fields.
func TestBenchJSON(t *testing.T) {
	raw, err := json.Marshal(benchReport())
	check.Must(t, err)
	want := `{"url":"http://127.0.0.1:8080","mode":"queue","duration":10,"requests":1234567,"ids":2469134,` +
		`"requestsPerSecond":123456.7,"idsPerSecond":246913.4,"intendedRate":200000,"achievedRate":123460,"unsent":765400,` +
		`"latency":{"p50":0.15,"p90":1.5,"p99":15,"p99.9":150,"max":1500,"mean":2},` +
		`"errors":{"503 code -4":30,"timeout":2},"badAnswers":{"an ID below 1":1},` +
		`"firstError":"the server answered: the list is empty",` +
		`"duplicates":3,"comparedIds":2000000,"notComparedIds":500000,"interrupted":false}`
	check.Equal(t, string(raw), want)
}

// TestBenchVerdict: what fails a run, most serious first.
func TestBenchVerdict(t *testing.T) {
	r := benchReport()
	wantVerdict(t, r, "3 IDs came that had come before, such as 16385, 32769")
	r.Duplicates = 0
	wantVerdict(t, r, "1 times: an ID below 1")
	r.Breaches = nil
	wantVerdict(t, r, "")
	r.Requests = 0
	wantVerdict(t, r, "the list is empty")
	r.Errors = nil
	wantVerdict(t, r, "longer --duration")
}

func wantVerdict(t *testing.T, r *loadgen.Report, want string) {
	t.Helper()
	err := verdict(r)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestBenchURL: the server is the configured one unless another is named.
func TestBenchURL(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:8080":    "http://127.0.0.1:8080",
		":8080":             "http://127.0.0.1:8080",
		"0.0.0.0:8080":      "http://127.0.0.1:8080",
		"[::]:8080":         "http://127.0.0.1:8080",
		"[::1]:8080":        "http://[::1]:8080",
		"ids.example.com:1": "http://ids.example.com:1",
		"127.0.0.1:0":       "",
	} {
		got, err := serverURL(config.Server{Addr: addr})
		if got != want || errors.Is(err, model.ErrInvalidArgument) != (want == "") {
			t.Errorf("%s: %q, %v", addr, got, err)
		}
	}
}

// TestBenchURLProto: --proto and the scheme of --url must agree; each says the other.
func TestBenchURLProto(t *testing.T) {
	const addr, redis = "127.0.0.1:8080", "127.0.0.1:6380"
	for _, test := range []struct{ asked, proto, resp, cert, want string }{
		{"", "", redis, "", "http://" + addr},
		{"", "resp", redis, "", "redis://" + redis},
		{"", "resp", ":6380", "cert.pem", "rediss://127.0.0.1:6380"},
		{"", "resp", "", "", ""},
		{"", "resp", "127.0.0.1:0", "", ""},
		{"redis://a:1", "", "", "", "redis://a:1"},
		{"rediss://a:1", "resp", "", "", "rediss://a:1"},
		{"http://a:1", "resp", redis, "", ""},
		{"redis://a:1", "http", redis, "", ""},
		{"http://a:1", "http", redis, "", "http://a:1"},
	} {
		cfg := Config{Server: config.Server{Addr: addr, TLSCertFile: test.cert}, RESP: config.RESP{Addr: test.resp}}
		got, err := benchURL(test.asked, test.proto, cfg)
		if got != test.want || errors.Is(err, model.ErrInvalidArgument) != (test.want == "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		check.Equal(t, grouped(n), want, n)
	}
}

func TestBenchProgress(t *testing.T) {
	var out strings.Builder
	printProgress(&out, loadgen.Progress{Elapsed: 1001 * time.Millisecond, Requests: 70_000, IDs: 70_000, Failed: 1, WarmingUp: true})
	check.Equal(t, out.String(), clearLine+"1s: 70,000 requests, 70,000 IDs, 1 failed, warming up")
}
