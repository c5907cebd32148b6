package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
	"shardid/service/loadgen"
)

// The report for people, and the fields that other programs read.
func TestBenchReport(t *testing.T) {
	r := &loadgen.Report{
		URL: "http://127.0.0.1:8080", Mode: "queue", Duration: 10, Requests: 1234567, IDs: 2469134,
		RequestsPerSecond: 123456.7, IDsPerSecond: 246913.4, IntendedRate: 200000, Unsent: 765400,
		Latency: map[string]float64{"p50": 0.15, "p90": 1.5, "p99": 15, "p99.9": 150, "max": 1500, "mean": 2},
		Failed:  32, Errors: map[string]int64{"EOF": 2, "503 code -4": 30},
		FirstError: "503 code -4: the list is empty",
		Duplicates: 3, FirstDuplicates: []int64{16385, 32769}, ComparedIDs: 2000000, Interrupted: true,
	}
	var out strings.Builder
	printReport(&out, r)
	check.Equal(t, out.String(), `queue	http://127.0.0.1:8080, 10.0 s, interrupted
requests	1234567	123457/s
IDs	2469134	246913/s
rate	200000/s, 765400 requests were due and not sent in time
latency	p50 0.15 ms, p90 1.5 ms, p99 15 ms, p99.9 150 ms, max 1500 ms, mean 2 ms
errors	32
	30 × 503 code -4
	2 × EOF
first error	503 code -4: the list is empty
duplicates	3 among 2000000 IDs
`)
	raw, err := json.Marshal(r)
	check.Must(t, err)
	check.Equal(t, string(raw), `{"url":"http://127.0.0.1:8080","mode":"queue","duration":10,`+
		`"requests":1234567,"ids":2469134,`+
		`"requestsPerSecond":123456.7,"idsPerSecond":246913.4,"intendedRate":200000,"unsent":765400,`+
		`"latency":{"max":1500,"mean":2,"p50":0.15,"p90":1.5,"p99":15,"p99.9":150},`+
		`"failed":32,"errors":{"503 code -4":30,"EOF":2},"firstError":"503 code -4: the list is empty",`+
		`"duplicates":3,"firstDuplicates":[16385,32769],"comparedIds":2000000,"interrupted":true}`)
}

// What fails a run: IDs that came twice, answers that must never be, and none at all.
func TestBenchVerdict(t *testing.T) {
	t.Chdir(t.TempDir())
	for form, want := range map[string]string{
		"N":    "",
		"N\n":  "",
		"7":    "had come before, such as [7",
		"ID-N": "not as many IDs above 0 as were asked for",
		"-N":   "not as many IDs above 0 as were asked for",
	} {
		var last atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n := last.Add(1)
			answer := map[bool]string{true: "N", false: form}[n == 1] // the first request is well answered
			fmt.Fprint(w, strings.ReplaceAll(answer, "N", strconv.FormatInt(n, 10)))
		}))
		exit, stdout, stderr := try(t, "bench", "--mode", "uid", "--duration", "100ms", "--url", s.URL)
		s.Close()
		if (exit == exitDone) != (want == "") || !strings.Contains(stderr, want) ||
			!strings.Contains(stdout, "duplicates") {
			t.Errorf("%s: %d, %s%s", form, exit, stdout, stderr)
		}
	}
}

// Every mode is asked over HTTP and RESP, for single IDs and for batches. A Redis that was named by mistake is not.
func TestBenchOfAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	check.Must(t, free.Close())
	url, _ := served(t, "--set=resp.addr="+free.Addr().String())
	var lines []line
	for _, at := range []string{url, "redis://" + free.Addr().String()} {
		for _, mode := range []string{"queue", "segment", "snowflake", "uid", "sequence --space chat"} {
			compared := `[1-9]\d*`
			if strings.HasPrefix(mode, "sequence") {
				compared = "0"
			}
			for _, count := range []string{"", " --count 3"} {
				args := "bench --duration 100ms --concurrency 4 --url " + at + " --mode " + mode + count
				says := `^(?s).*\nerrors +0\nduplicates +0 among ` + compared + ` IDs\n$`
				lines = append(lines, line{args, 0, says})
			}
		}
	}
	redis := testserver.Redis(t).Addr
	types(t, append(lines, line{"bench --url redis://" + redis, 1, "what answers there is no shardid"}))
}
