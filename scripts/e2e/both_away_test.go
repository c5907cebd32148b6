//go:build unix

package e2e_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestE2EBothStoresAway: both stores restart while nobody asks. An app that will wait for a confirmation is
// an alarm before a caller was refused, until the confirmation; what a tag leaves out is an alarm, a counter
// and a line on the console; `shardid status` fails for as long as something is critical, and no longer.
func TestE2EBothStoresAway(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	on := s.settings()
	must(t, on, "provision", "--app", "2", "--name", "narrow", "--max-limit-id", "2147483648")
	must(t, on, "tags", "add", "--tag", "orders", "--step", "100", "--pattern", "ORD-{yyyyMMdd}-{seq:8}", "--reset", "day")
	d := serve(t, on)
	d.recovers()
	status := func() outcome { return shardid(t, nil, "status", "--url", d.url) }
	says := func(name string) string {
		for _, a := range d.status().Alarms {
			if a.Name == name {
				return a.Message
			}
		}
		return ""
	}
	eventually(t, startLimit, "they issue IDs", func() bool { return d.get("/get?appId=2&gatePass=alice").status == 200 })
	if first := d.want("/v1/segment/orders/ids", 200, 0); !strings.Contains(first.body, "-00000001") {
		t.Fatalf("the first number: %s", first.body)
	}
	eventually(t, startLimit, "Redis vouches, and nothing is critical", func() bool {
		o := status()
		return o.exit == 0 && o.stderr == "" && regexp.MustCompile(`\nwitness +named +2\S+Z +Redis vouches`).MatchString(o.stdout)
	})

	eventually(t, startLimit, "the database has run for a while", func() bool { return uptime(t, s.dsn) > 8 })
	s.redis.Kill()
	s.db.Kill()
	d.alarm("ShardidStoreAway", true)
	if o := status(); o.exit != 1 || !strings.Contains(o.stderr, "ShardidStoreAway") {
		t.Errorf("with a critical alarm: %+v", o)
	}
	s.db.Restart()
	s.redis.Restart()
	d.alarm("ShardidConfirmationNeeded", true)
	if a := says("ShardidConfirmationNeeded"); !strings.Contains(a, "app 2 (narrow)") || !strings.Contains(a, "shardid confirm --app 2") {
		t.Errorf("the alarm: %s", a)
	}
	if m := d.get("/metrics").body; !strings.Contains(m, "\nshardid_queue_starved_total 0\n") || !strings.Contains(m, "\nshardid_queue_unconfirmed_lists 64\n") {
		t.Error("a caller was refused before")
	}

	eventually(t, time.Minute, "the tag has used what it held, and goes on", func() bool {
		return d.get("/v1/segment/orders/ids?count=100").status == 200 && says("ShardidIndicesLeftOut") != ""
	})
	if a := says("ShardidIndicesLeftOut"); !regexp.MustCompile(`[1-9]\d{6,} IDs of tags were left out, the most of tag "orders"`).MatchString(a) {
		t.Errorf("the alarm: %s", a)
	}
	if m := d.get("/metrics").body; !strings.Contains(m, "\nshardid_segment_incarnation_jumps_total 1\n") || !regexp.MustCompile(`\nshardid_segment_jumped_ids_total [1-9]`).MatchString(m) {
		t.Error("the metrics do not tell of the jump")
	}
	b := browse(t, d.url, 1300)
	b.until("a line of the tag", `/orders\s*[\d,]{7,} IDs left out/.test(document.querySelector('#tag-rows tr')?.innerText)`)

	if o := status(); o.exit != 1 || !strings.Contains(o.stderr, "ShardidConfirmationNeeded") {
		t.Errorf("while it waits: %+v", o)
	}
	must(t, on, "confirm", "--app", "2", "--name", "narrow")
	d.alarm("ShardidConfirmationNeeded", false)
	d.want("/get?appId=2&gatePass=alice", 200, 0)
	eventually(t, 30*time.Second, "nothing is critical", func() bool { return status().exit == 0 })
	b.clean()
}
