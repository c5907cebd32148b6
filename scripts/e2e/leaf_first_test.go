//go:build unix

package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// TestE2ELeafFirstMinute: an empty folder, one command, and the curls of Leaf.
func TestE2ELeafFirstMinute(t *testing.T) {
	check.Deep(t)
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
	check.Deep(t)
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
