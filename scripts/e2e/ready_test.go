//go:build unix

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestE2EAlarmsEndWithTheirCause: both stores die under load and come back. Nobody asks
// for anything then, no sweep is due, and still everything is well soon: what failed is
// tried again, and is not judged by its last failure.
func TestE2EAlarmsEndWithTheirCause(t *testing.T) {
	check.Deep(t)
	story(t)
	s, books := privateStores(t), &ledger{}
	must(t, onMariaDB(s.dsn), "tags", "add", "--tag", demoTag, "--step", "10")
	never := settings{"QUEUE_REFILL_CRON": "0 0 0 1 1 *", "QUEUE_RELOAD_CRON": "0 0 0 1 1 *", "SEGMENT_TIMEOUT": "300ms"}
	d := serve(t, s.settings().With(never))
	d.recovers()
	eventually(t, 15*time.Second, "served", func() bool { return batch(d, books, "alice", 10).status == 200 })
	d.want(segmentGet+demoTag, 200, 0)
	s.db.Kill()
	eventually(t, 20*time.Second, "the list runs dry", func() bool { return batch(d, books, "alice", 50).status != 200 })
	s.redis.Kill()
	eventually(t, 20*time.Second, "all that can fail does", func() bool {
		batch(d, books, "alice", 50)
		d.get("/get?appId=9&gatePass=a") // has the apps read
		d.get(segmentGet + demoTag + "?count=100")
		d.get(segmentGet + "unknown") // has the tags read
		body := d.get("/healthz").body
		return !slices.ContainsFunc([]string{"database", "redis", "pop", "refill", "reload", "segment load", "segment reload"}, func(name string) bool {
			return !strings.Contains(body, fmt.Sprintf(`{"name":%q,"ok":false`, name))
		})
	})
	d.alarm("ShardidStoreAway", true)
	if a := d.want("/readyz/queue", 503, 0); !strings.Contains(a.Message, "redis") {
		t.Errorf("/readyz/queue: %s", a.body)
	}
	d.want("/readyz", 200, 0) // snowflake and UID serve
	s.redis.Restart()
	s.db.Restart()
	d.recovers()
	eventually(t, 15*time.Second, "served", func() bool { return batch(d, books, "alice", 100).status == 200 })
	eventually(t, 30*time.Second, "what callers met is told of as over", func() bool {
		over := false
		for _, a := range d.status().Alarms {
			if a.Severity == "critical" {
				return false
			}
			over = over || a.Name == "ShardidStarved" && strings.HasPrefix(a.Message, "over, was critical until ")
		}
		return over
	})
	books.Settle(t)
}

// TestE2EOneMasterOfThreeDies: the other modes go on, and so does the queue where the
// cluster serves the slots that are left.
func TestE2EOneMasterOfThreeDies(t *testing.T) {
	check.Deep(t)
	story(t)
	cluster, dsn, books := testserver.Cluster(t), migrated(t), &ledger{}
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	d := serve(t, onMariaDB(dsn).With(onCluster(cluster)).With(settings{"QUEUE_TIMEOUT": "300ms"}))
	d.recovers()
	served := func() (n int) {
		for i := range 24 {
			if batch(d, books, fmt.Sprint("user", i), 1).status == 200 {
				n++
			}
		}
		return n
	}
	eventually(t, startLimit, "all lists serve", func() bool { return served() == 24 })
	eventually(t, startLimit, "a worker ID of the UID mode", func() bool { return d.get(uidTarget(1)).status == 200 })

	cluster.Nodes[1].Kill()
	eventually(t, 20*time.Second, "the cluster refuses everything", func() bool { return d.get("/readyz/queue").status == 503 })
	for _, page := range []string{"/readyz", "/readyz/segment", "/readyz/snowflake", "/readyz/uid", snowflakeGet, uidTarget(1)} {
		d.want(page, 200, 0)
	}
	d.want("/healthz", 503, 0)
	d.alarm("ShardidStoreAway", true)

	for _, i := range []int{0, 2} {
		if err := cluster.Nodes[i].Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 20*time.Second, "two masters serve", func() bool { return d.get("/readyz/queue").status == 200 })
	if n := served(); n < 8 || n == 24 {
		t.Errorf("%d of 24 lists are served", n)
	}
	for _, page := range []string{"/readyz", "/readyz/queue"} {
		if a := d.want(page, 200, 0); a.Status != "degraded" || !strings.Contains(a.body, cluster.Addrs[1]) {
			t.Errorf("%s: %s", page, a.body)
		}
	}

	cluster.Nodes[1].Restart()
	cluster.WaitOK()
	d.recovers()
	eventually(t, 15*time.Second, "all lists serve again", func() bool { return served() == 24 })
	books.Settle(t)
}
