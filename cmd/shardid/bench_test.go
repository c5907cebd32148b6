package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

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
