//go:build unix

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestE2ELeafFirstMinute: an empty folder, one command, and the curls of Leaf.
func TestE2ELeafFirstMinute(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").Status == "ok" })
	for _, want := range []string{"1", "2"} {
		a := d.want(segmentGet+demoTag, 200, 0)
		if a.body != want || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
			t.Errorf("got %q as %q, want %q as text", a.body, a.header.Get("Content-Type"), want)
		}
	}
	ids, a, err := d.take(segmentGet+demoTag, 3)
	if err != nil || !slices.Equal(ids, []int64{3, 4, 5}) {
		t.Errorf("a batch of three: %v, %d %q", err, a.status, a.body)
	}
	d.want(segmentGet+"nothing", 404, -2)
	d.want(segmentGet+demoTag+"?count=0", 400, -6)
}

// TestE2ELeafDisabled: modes that are switched off say so, and keep nobody from
// being ready.
func TestE2ELeafDisabled(t *testing.T) {
	story(t)
	d := serve(t, onlyLeaf().With(settings{"SEGMENT_ENABLED": "false", "SNOWFLAKE_ENABLED": "false"}), "--demo")
	eventually(t, startLimit, "ready", func() bool { a := d.get("/readyz"); return a.status == 200 && a.Status == "ok" })
	for _, target := range []string{segmentGet + demoTag, segmentGet + demoTag + "?count=5", snowflakeGet, snowflakeGet + "?count=5", "/cache", "/db"} {
		if a := d.want(target, 404, -9); !strings.Contains(a.Message, ".enabled") || a.ID != 0 || a.IDs != nil {
			t.Errorf("%s: %s", target, a.body)
		}
	}
	d.want("/decodeSnowflakeId?snowflakeId=1244913459358187520", 200, 0)
	d.want(aliceGet, 200, 0)
}

// TestE2ELeafJavaScript: with 5 and 7 bits snowflakes fit JavaScript's numbers, and each
// place that takes them apart knows the widths.
func TestE2ELeafJavaScript(t *testing.T) {
	story(t)
	widths := strings.Fields("--set snowflake.worker_bits=5 --set snowflake.seq_bits=7 " +
		"--set snowflake.sequence_start=16 --set snowflake.epoch_ms=1767225600000")
	d := serve(t, nil, append([]string{"--demo"}, widths...)...)
	eventually(t, startLimit, "the mode serves", func() bool { return d.get("/api/snowflake/get/x").status == 200 })
	seen := map[string]bool{}
	for range 3 {
		for id := range strings.Lines(d.want("/api/snowflake/get/x"+"?count=1000", 200, 0).body) {
			id = strings.TrimSpace(id)
			if n := number64(t, id); seen[id] || n <= 0 || n >= 1<<53 {
				t.Fatalf("%s is no number of JavaScript, or came twice: %v", id, seen[id])
			}
			seen[id] = true
		}
	}
	for id := range seen {
		when := 1767225600000 + number64(t, id)>>12
		worker, seq := number64(t, id)>>7&31, number64(t, id)&127
		leaf := d.get("/decodeSnowflakeId?snowflakeId=" + id).body
		if want := fmt.Sprintf(`"workerId":"%d","sequenceId":"%d"`, worker, seq); !strings.Contains(leaf, fmt.Sprint(when)) || !strings.Contains(leaf, want) {
			t.Errorf("%s: %s, want %d and %s", id, leaf, when, want)
		}
		line := must(t, nil, append([]string{"decode", "--json", "--kind", "snowflake", id}, widths...)...)
		if !strings.Contains(line, fmt.Sprintf(`"timestamp":%d`, when)) || !strings.Contains(line, fmt.Sprintf(`"workerId":%d`, worker)) {
			t.Errorf("%s: %s", id, line)
		}
		break
	}
}
