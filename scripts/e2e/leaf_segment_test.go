//go:build unix

package e2e_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// onlySegments leaves out what the stories of the segment mode do not tell of.
func onlySegments(dsn string) settings {
	return onMariaDB(dsn).with(onlyLeaf()).with(settings{"SNOWFLAKE_ENABLED": "false"})
}

// drawUntil takes batches of a tag with n callers, each from one of the replicas,
// until books hold so many IDs.
func drawUntil(wg *sync.WaitGroup, books *harvest, replicas []*daemon, tag string, n, batch, ids int) {
	for i := range n {
		d := replicas[i%len(replicas)]
		wg.Go(func() {
			var last int64
			for books.count() < ids {
				got, a, err := d.take(segmentGet+tag, batch)
				if err != nil || a.status != 200 {
					books.complain("%s: %v, %d %s", tag, err, a.status, a.body)
					return
				}
				books.add(last, got...)
				last = got[len(got)-1]
			}
		})
	}
}

// TestE2ELeafSegmentReplicas: two replicas share a database. A tag is asked for
// hard while others come, are used, and go.
func TestE2ELeafSegmentReplicas(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "1000")
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "订单 & more", "--step", "10", "--max-id", "7")
	replicas := []*daemon{serve(t, onlySegments(dsn)), serve(t, onlySegments(dsn))}
	for _, d := range replicas {
		eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
		d.want(segmentGet+"late", 404, -2)
	}
	var callers sync.WaitGroup
	orders, others := &harvest{}, &harvest{}
	drawUntil(&callers, orders, replicas, "orders", 32, 10_000, 1_000_000)
	drawUntil(&callers, others, replicas, "%E8%AE%A2%E5%8D%95%20&%20more", 8, 0, 3000)
	query(t, dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('late', 1, 100)")
	late := &harvest{}
	for _, d := range replicas {
		took := eventually(t, 5*time.Second, "the new tag works", func() bool {
			ids, _, _ := d.take(segmentGet+"late", 5)
			late.add(0, ids...)
			return ids != nil
		})
		t.Logf("a new tag works after %v", took.Round(time.Millisecond))
	}
	callers.Wait()
	for what, books := range map[string]*harvest{"orders": orders, "others": others, "late": late} {
		books.settle(t, what)
	}
	wantTaken(t, dsn, "orders", orders)
	removedTag(t, dsn, replicas)
}

// wantTaken: all that was handed out is below max_id.
func wantTaken(t *testing.T, dsn, tag string, books *harvest) {
	t.Helper()
	next := number(t, dsn, "SELECT max_id FROM leaf_alloc WHERE biz_tag = '"+tag+"'")
	if highest := slices.Max(books.ids); highest >= next {
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

// TestE2ELeafTable: a table of Leaf's goes on where it is.
func TestE2ELeafTable(t *testing.T) {
	story(t)
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	query(t, dsn, leafTable, "INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES "+
		"('leaf-segment-test', 1, 2000, 'Test leaf Segment Mode Get Id'), ('orders', 5001, 1000, NULL), ('big', 4611686018427387904, 10, '')")
	must(t, onMariaDB(dsn), "migrate")
	if out := must(t, onMariaDB(dsn), "tags"); !strings.Contains(out, "Test leaf Segment Mode Get Id") || strings.Count(out, "\n") != 4 {
		t.Errorf("tags: %s", out)
	}
	d := serve(t, onlySegments(dsn))
	for tag, first := range map[string]int64{demoTag: 1, "orders": 5001, "big": 4611686018427387904} {
		var ids []int64
		eventually(t, startLimit, tag, func() bool { ids, _, _ = d.take(segmentGet+tag, 2); return ids != nil })
		if !slices.Equal(ids, []int64{first, first + 1}) {
			t.Errorf("%s: %v, the table said %d", tag, ids, first)
		}
	}
	if n := number(t, dsn, "SELECT COUNT(*) FROM leaf_alloc WHERE biz_tag = 'orders' AND max_id = 6001 AND step = 1000 AND description IS NULL"); n != 1 {
		t.Error("the row is not what Leaf would have made of it")
	}
}

// TestE2ELeafTableGoesBack: a max_id that was set back under a replica repeats
// nothing, and is said and counted.
func TestE2ELeafTableGoesBack(t *testing.T) {
	story(t)
	dsn, books := migrated(t), &harvest{}
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "1000")
	d := serve(t, onlySegments(dsn))
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	var callers sync.WaitGroup
	drawUntil(&callers, books, []*daemon{d}, "orders", 4, 100, 20_000)
	callers.Wait()
	if n := metric(t, d, "shardid_segment_lifts_total"); n != 0 {
		t.Errorf("%d lifts before", n)
	}
	query(t, dsn, "UPDATE leaf_alloc SET max_id = 1 WHERE biz_tag = 'orders'")
	eventually(t, 20*time.Second, "it is counted", func() bool {
		drawUntil(&callers, books, []*daemon{d}, "orders", 4, 10_000, books.count()+100_000)
		callers.Wait()
		return metric(t, d, "shardid_segment_lifts_total") > 0
	})
	books.settle(t, "orders")
	wantTaken(t, dsn, "orders", books)
	eventually(t, 10*time.Second, "it is said", func() bool {
		return len(d.lines(`"level":"WARN"`, "max_id was below", `"tag":"orders"`)) > 0
	})
}

// metric is a counter without labels.
func metric(t *testing.T, d *daemon, name string) int64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(d.want("/metrics", 200, 0).body)
	if found == nil {
		t.Fatalf("/metrics has no %s", name)
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestE2ELeafDatabaseDies: a replica goes on with what it holds of a tag, then
// says why it cannot, and is well as soon as the database is.
func TestE2ELeafDatabaseDies(t *testing.T) {
	story(t)
	db, books := testserver.MariaDB(t), &harvest{}
	dsn := db.NewDatabase(t)
	must(t, onMariaDB(dsn), "migrate")
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "1000")
	d := serve(t, onlySegments(dsn).with(settings{"SEGMENT_TIMEOUT": "500ms"}))
	var last int64
	draw := func(count int) answer {
		ids, a, err := d.take(segmentGet+"orders", count)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			books.add(last, id)
			last = id
		}
		return a
	}
	eventually(t, startLimit, "served", func() bool { return draw(300).status == 200 })
	db.Kill()
	for range 6 {
		if a := draw(100); a.status != 200 {
			t.Fatalf("IDs are held: %d %s", a.status, a.body)
		}
	}
	var a answer
	eventually(t, 30*time.Second, "what is held runs out", func() bool { a = draw(1000); return a.status != 200 })
	if !comeAgain(a) || a.Code != -4 || !strings.Contains(a.Message, "database") {
		t.Errorf("%v %s", a.header, a.body)
	}
	db.Restart()
	took := eventually(t, 20*time.Second, "recovered", func() bool { return draw(3000).status == 200 })
	t.Logf("recovered after %v", took.Round(time.Millisecond))
	books.settle(t, "orders")
}
