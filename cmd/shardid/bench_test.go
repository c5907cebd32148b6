package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
)

// answering is a server that answers its n-th request with what answer gives.
func answering(t *testing.T, answer func(n int64, w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	var last atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(last.Add(1), w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func writeID(w io.Writer, id int64) { fmt.Fprintf(w, `{"code":0,"ids":["%d"]}`, id) }

// benchOf runs bench against a server of the UID mode.
func benchOf(t *testing.T, url string, flags ...string) (exit int, r benchReport, stderr string) {
	t.Helper()
	exit, stdout, stderr := try(t, append([]string{"bench", "--json", "--mode", "uid", "--url", url, "--duration",
		"100ms", "--concurrency", "4"}, flags...)...)
	if stdout != "" {
		check.Must(t, json.Unmarshal([]byte(stdout), &r))
	}
	return exit, r, stderr
}

// What fails a run: IDs that came twice, whoever got them, and answers that must never be. Refusals are counted by
// kind, and the first error is shown.
func TestBenchVerdict(t *testing.T) {
	t.Chdir(t.TempDir())
	for form, want := range map[string]string{ // of the fifth answer
		`{"code":0,"ids":["N"]}`:                "",
		`{"code":0,"ids":[N]}`:                  "",
		`{"code":0,"ids":["2"]}`:                "1 IDs came that had come before, such as [2]",
		`{"code":0,"ids":["ID-N"]}`:             "1 times with not as many IDs above 0 as were asked for",
		`{"code":0,"ids":["-N"]}`:               "1 times with not as many IDs above 0 as were asked for",
		`{"code":0,"ids":["N", "99999999"]}`:    "1 times with not as many IDs above 0 as were asked for",
		"N":                                     "1 times with not as many IDs above 0 as were asked for",
		`{"code":-4,"message":"list is empty"}`: "",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := answering(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
			if n == 5 {
				fmt.Fprint(w, strings.ReplaceAll(form, "N", strconv.FormatInt(n, 10)))
				return
			}
			if writeID(w, n); n == 8 {
				cancel()
			}
		})
		b := bencher{mode: "uid", url: s.URL, client: &http.Client{}, connections: 1, batch: 1, duration: time.Hour}
		check.Must(t, b.run(ctx))
		r, verdict := &b.out, b.out.verdict()
		if (verdict == nil) != (want == "") || !strings.Contains(fmt.Sprint(verdict), want) || r.ComparedIDs < 5 ||
			strings.Contains(form, "-4") &&
				(r.Errors["200 code -4"] != 1 || r.FirstError != "list is empty: 200 code -4") {
			t.Errorf("%s: %+v, %v", form, r, verdict)
		}
	}
}

// All shards get as many requests.
func TestBenchShards(t *testing.T) {
	requests := map[uint8]int{}
	for turn := range 1024 {
		path, err := url.Parse((&bencher{mode: "queue", app: 7, passes: 1024}).path(turn))
		check.Must(t, err)
		requests[idtext.ShardOf(path.Query().Get("gatePass"))]++
	}
	check.Equal(t, len(requests), model.Shards, "shards")
	check.Equal(t, requests[0], 1024/model.Shards, "requests of a shard")
}

// A stall of the server counts for every request that was due in it, and a closed loop ends in time.
func TestBenchStall(t *testing.T) {
	t.Chdir(t.TempDir())
	s := answering(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond)
		writeID(w, n)
	})
	if _, r, _ := benchOf(t, s.URL); r.Requests < 1 || r.Requests > 8 || r.Unsent != 0 {
		t.Errorf("%+v", r)
	}
	_, r, _ := benchOf(t, s.URL, "--rate", "1000", "--duration", "500ms")
	if r.Unsent < 400 || r.Requests+r.Unsent < 490 || r.Latency["p50"] < 200 {
		t.Errorf("%+v", r)
	}
}

// A run that is interrupted reports what was done until then; a server that goes away is counted.
func TestBenchEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var atTenth func()
	s := answering(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		if n%10 == 0 {
			atTenth()
		}
		writeID(w, n)
	})
	atTenth = cancel
	b := bencher{mode: "uid", url: s.URL, client: &http.Client{}, connections: 4, batch: 1, duration: time.Hour}
	if err := b.run(ctx); err != nil || !b.out.Interrupted || b.out.Failed > 0 || b.out.Duration > 60 {
		t.Errorf("%+v, %v", b.out, err)
	}
	t.Chdir(t.TempDir())
	atTenth = func() { go s.Close() }
	_, r, _ := benchOf(t, s.URL, "--duration", "1s")
	if r.Interrupted || r.Requests == 0 || r.Errors["connection refused"] == 0 {
		t.Errorf("%+v", r)
	}
}

// A server is asked with a token and below a path. A run that cannot begin says what to do.
func TestBenchBegins(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("token", []byte("secret\n"), 0o600))
	s := answering(t, func(n int64, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/below/v1/uid/ids" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
		}
		writeID(w, n)
	})
	secure := httptest.NewTLSServer(s.Config.Handler)
	defer secure.Close()
	bench := "bench --mode uid --duration 100ms --url " + s.URL
	types(t, []line{
		{bench + "/below --token-file token", 0, `^(?s).*\nerrors +0\n`},
		{bench + " --url " + secure.URL + "/below --insecure --token-file token", 0, `^(?s).*\nerrors +0\n`},
		{bench + "/below", 1, "403: the first request to "},
		{bench + "/elsewhere --token-file token", 1, "403: the first request to "},
		{"bench --mode uid --url http://127.0.0.1:1", 1, "connection refused"},
		{"bench --mode uid --url 127.0.0.1:8080", 2, "write --url like http://127.0.0.1:8080, "},
		{bench + " --mode uuid", 2, "give --mode queue, "},
		{bench + " --concurrency 0", 2, "give --concurrency, --count and --duration above 0"},
		{bench + " --count 0", 2, "give --concurrency, --count and --duration above 0"},
	})
}

// Every mode is asked, for single IDs and for batches.
func TestBenchOfAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	url, _ := served(t)
	var lines []line
	for _, mode := range []string{"queue", "segment", "snowflake", "uid", "sequence --space chat"} {
		compared := `[1-9]\d*`
		if strings.HasPrefix(mode, "sequence") {
			compared = "0"
		}
		for _, count := range []string{"", " --count 3"} {
			args := "bench --duration 100ms --concurrency 4 --url " + url + " --mode " + mode + count
			lines = append(lines, line{args, 0, `^(?s).*\nerrors +0\nduplicates +0 among ` + compared + ` IDs\n$`})
		}
	}
	types(t, lines)
}
