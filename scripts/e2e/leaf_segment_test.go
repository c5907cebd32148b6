//go:build unix

package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// onlySegments leaves out what the stories of the segment mode do not tell of.
func onlySegments(dsn string) settings {
	return onMariaDB(dsn).With(onlyLeaf()).With(settings{"SNOWFLAKE_ENABLED": "false"})
}

// drawing is callers who take batches of a tag.
func drawing(t *testing.T, books *ledger, replicas []*daemon, tag string, callers, batch int) *load {
	t.Helper()
	l := &load{replicas: replicas, books: books, target: segmentGet + tag, batch: batchOf(batch)}
	l.start(t, callers)
	return l
}

// TestE2ELeafSegmentReplicas: two replicas share a database. A tag is asked for
// hard while others come, are used, and go. Then the row of one goes back in time.
func TestE2ELeafSegmentReplicas(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "1000")
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "订单 & more", "--step", "10", "--max-id", "7")
	replicas := serveReady(t, 2, onlySegments(dsn))
	for _, d := range replicas {
		d.want(segmentGet+"late", 404, -2)
	}
	orders, others := &ledger{}, &ledger{}
	many, few := drawing(t, orders, replicas, "orders", 32, 50), drawing(t, others, replicas, "%E8%AE%A2%E5%8D%95%20&%20more", 8, 0)
	query(t, dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('late', 1, 100)")
	late := &ledger{}
	for _, d := range replicas {
		took := eventually(t, 5*time.Second, "the new tag works", func() bool {
			ids, _, _ := d.take(segmentGet+"late", 5)
			late.Rise(0, ids...)
			return ids != nil
		})
		t.Logf("a new tag works after %v", took.Round(time.Millisecond))
	}
	few.reach(t, 3000)
	few.stop()
	many.reach(t, 20_000)
	many.stop()
	for what, books := range map[string]*ledger{"orders": orders, "others": others, "late": late} {
		books.Settle(t, what)
	}
	wantTaken(t, dsn, "orders", orders)
	removedTag(t, dsn, replicas)
	liftedTag(t, dsn, replicas[0])
}

// liftedTag: a row that goes back in time is lifted above what the replica knows to be handed
// out, which the metric and an alarm tell.
func liftedTag(t *testing.T, dsn string, d *daemon) {
	t.Helper()
	books := &ledger{}
	draws := func(n int) {
		ids, a, err := d.take(segmentGet+"restored", n)
		if err != nil || ids == nil {
			t.Fatalf("%d, %v", a.status, err)
		}
		books.Rise(0, ids...)
	}
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "restored", "--step", "100")
	eventually(t, 5*time.Second, "the tag is known", func() bool { return d.get(segmentGet+"restored").status == 200 })
	draws(500)
	query(t, dsn, "UPDATE leaf_alloc SET max_id = 1, own_max_id = 1 WHERE biz_tag = 'restored'")
	for range 10 {
		draws(10_000) // more than is held
	}
	eventually(t, 10*time.Second, "one lift is counted", func() bool { return d.metric("shardid_segment_lifts_total") == 1 })
	d.alarm("ShardidDatabaseWentBack", true)
	books.Settle(t, "restored")
	wantTaken(t, dsn, "restored", books)
}

// wantTaken: all that was handed out is below max_id.
func wantTaken(t *testing.T, dsn, tag string, books *ledger) {
	t.Helper()
	next := number(t, dsn, "SELECT max_id FROM leaf_alloc WHERE biz_tag = '"+tag+"'")
	if highest := books.Last(); highest >= next {
		t.Errorf("%s: ID %d was issued, max_id is %d", tag, highest, next)
	}
}

// removedTag: a tag whose row is deleted vanishes with the next reading of the
// tags, which one that is not known brings about.
func removedTag(t *testing.T, dsn string, replicas []*daemon) {
	t.Helper()
	query(t, dsn, "DELETE FROM leaf_alloc WHERE biz_tag = 'late'")
	for _, d := range replicas {
		eventually(t, 10*time.Second, "the removed tag vanishes", func() bool {
			d.want(segmentGet+"unknown", 404, -2)
			return d.get(segmentGet+"late").status == 404
		})
		if a := d.want("/db", 200, 0); strings.Contains(a.body, ">late<") || !strings.Contains(a.body, ">orders<") {
			t.Errorf("/db: %s", a.body)
		}
	}
	replicas[0].want(segmentGet+"orders", 200, 0)
}

// leafTable is the table as Leaf's users have made it.
const leafTable = "CREATE TABLE `leaf_alloc` (`biz_tag` varchar(128) NOT NULL DEFAULT '', `max_id` bigint(20) NOT NULL DEFAULT '1', " +
	"`step` int(11) NOT NULL, `description` varchar(256) DEFAULT NULL, " +
	"`update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB"

// TestE2E200000Tags: a table that is read in many parts. A tag works soon after the start,
// whether it was met or not, all of them are shown later, and a removed one vanishes.
func TestE2E200000Tags(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := migrated(t)
	query(t, dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) "+
		"WITH digit AS (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 "+
		"UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) "+
		"SELECT CONCAT('customer-', u.n, v.n, w.n, x.n, y.n, z.n), 1, 1000 FROM digit u, digit v, digit w, digit x, digit y, digit z WHERE u.n < 2")
	d := serve(t, onlySegments(dsn))
	var ids []int64
	took := eventually(t, startLimit, "the last tag works", func() bool {
		ids, _, _ = d.take(segmentGet+"customer-199999", 2)
		return ids != nil
	})
	if !slices.Equal(ids, []int64{1, 2}) {
		t.Errorf("IDs %v", ids)
	}
	d.want(segmentGet+"customer-200000", 404, -2)
	shown := func() int {
		a, err := d.do("GET", "/cache?limit=1", "Accept", "application/json")
		if err != nil || a.status != 200 {
			t.Fatalf("/cache: %v, %d", err, a.status)
		}
		return fromJSON[struct{ Total int }](t, a).Total
	}
	all := eventually(t, time.Minute, "all tags are shown", func() bool { return shown() == 200_000 })
	t.Logf("the first ID after %v, all tags %v later", took.Round(time.Millisecond), all.Round(time.Millisecond))
	query(t, dsn, "DELETE FROM leaf_alloc WHERE biz_tag = 'customer-000077'")
	eventually(t, 3*time.Minute, "a removed tag vanishes", func() bool { return shown() == 199_999 })
	d.want(segmentGet+"customer-000077", 404, -2)
	if bad := d.Lines("deadline exceeded"); len(bad) > 0 {
		t.Errorf("%s", bad)
	}
}
