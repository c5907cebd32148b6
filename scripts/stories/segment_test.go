//go:build unix

// Tags of the segment mode, as Leaf has them, and their business numbers: replicas share one table.

package stories_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// leafTable is the table as Leaf's users have made it.
const leafTable = "CREATE TABLE `leaf_alloc` (`biz_tag` varchar(128) NOT NULL DEFAULT '', " +
	"`max_id` bigint(20) NOT NULL DEFAULT '1', `step` int(11) NOT NULL, `description` varchar(256) DEFAULT NULL, " +
	"`update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, " +
	"PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB"

// onlySegments leaves out what the stories of the segment mode do not tell of.
func onlySegments(dsn string) settings {
	return onMariaDB(dsn).With(onlyLeaf()).With(settings{"SNOWFLAKE_ENABLED": "false"})
}

// wantTaken: all that was handed out is below max_id.
func wantTaken(t *testing.T, dsn, tag string, books *ledger) {
	t.Helper()
	next := number(t, dsn, "SELECT max_id FROM leaf_alloc WHERE biz_tag = '"+tag+"'")
	if highest := books.Last(); highest >= next {
		t.Errorf("%s: ID %d was issued, max_id is %d", tag, highest, next)
	}
}

// TestLeafSegmentReplicas: clients of Leaf, of /v1 and of tinyid draw from one tag, from two replicas that
// are killed and come back. No ID comes twice, and max_id is above all of them.
func TestLeafSegmentReplicas(t *testing.T) {
	story(t)
	dsn, books := migrated(t), &ledger{}
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "500")
	two := newPair(t, onlySegments(dsn))
	targets := []string{segmentGet + "orders?count=7", "/v1/segment/orders/ids?count=40",
		"/tinyid/id/nextIdSimple?bizType=orders&batchSize=30&token=any"}
	const clients = 2 // of tinyid, which count on their own
	drawn := make([]atomic.Int64, len(targets)+clients)
	var callers rig.Callers
	callers.Start(t, len(drawn), func(ctx context.Context, caller int) {
		draw := func() []int64 { return two.askAny(targets[caller]) }
		if caller >= len(targets) {
			draw = func() []int64 { return tinyidLife(newTinyidClient(t, "any", "orders", two.urls...)) }
		}
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			ids := draw()
			books.Add("", plain, ids...)
			drawn[caller].Add(int64(len(ids)))
		}
	})
	two.dieInTurn(books, 4, 3000)
	for i := range drawn {
		eventually(t, time.Minute, "each client has drawn 1000 IDs", func() bool { return drawn[i].Load() >= 1000 })
	}
	callers.Stop()
	books.Settle(t)
	wantTaken(t, dsn, "orders", books)
}

// tinyidLife is a client that draws for a while and takes its buffers with it when it ends.
func tinyidLife(c *tinyidClient) (ids []int64) {
	for range 700 {
		if id, err := c.nextID(); err == nil {
			ids = append(ids, id)
		}
	}
	if c.next != nil {
		<-c.next
	}
	return ids
}

// TestTagsComeAndGo: tags are made in the table, used, and removed, while another one is asked for hard.
func TestTagsComeAndGo(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "1000")
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "订单 & more", "--step", "10", "--max-id", "7")
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "restored", "--step", "100")
	replicas := serveReady(t, 2, onlySegments(dsn))
	orders := &load{replicas: replicas, books: &ledger{}, target: segmentGet + "orders", batch: batchOf(50)}
	const oddGet = segmentGet + "%E8%AE%A2%E5%8D%95%20&%20more"
	odd := &load{replicas: replicas, books: &ledger{}, target: oddGet, batch: batchOf(0)}
	orders.start(t, 16)
	odd.start(t, 8)
	const late = segmentGet + "late"
	books := &ledger{}
	for _, d := range replicas {
		d.want(late, 404, -2)
	}
	query(t, dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('late', 1, 100)")
	for _, d := range replicas {
		eventually(t, startLimit, "the new tag works", func() bool {
			ids, _, _ := d.take(late, 5)
			books.Rise(0, ids...)
			return ids != nil
		})
	}
	liftedTag(t, dsn, replicas[0])
	query(t, dsn, "DELETE FROM leaf_alloc WHERE biz_tag = 'late'")
	for _, d := range replicas {
		eventually(t, startLimit, "the removed tag vanishes", func() bool {
			d.want(segmentGet+"unknown", 404, -2) // has the tags read
			return d.get(late).status == 404
		})
	}
	odd.reach(t, 1000)
	odd.stop()
	orders.reach(t, 10_000)
	orders.stop()
	for what, books := range map[string]*ledger{"orders": orders.books, "odd": odd.books, "late": books} {
		books.Settle(t, what)
	}
	wantTaken(t, dsn, "orders", orders.books)
}

// liftedTag: a row goes back in time, as after a restore. Its replica lifts it above what it has issued, which a
// metric and an alarm tell.
func liftedTag(t *testing.T, dsn string, d *daemon) {
	t.Helper()
	books := &ledger{}
	draw := func(count int) {
		ids, _, _ := d.take(segmentGet+"restored", count)
		books.Rise(0, ids...)
	}
	draw(500)
	query(t, dsn, "UPDATE leaf_alloc SET max_id = 1, own_max_id = 1 WHERE biz_tag = 'restored'")
	eventually(t, startLimit, "the row is lifted", func() bool {
		draw(10_000) // more than is held
		return d.metric("shardid_segment_lifts_total") == 1
	})
	d.alarm("ShardidDatabaseWentBack", true)
	books.Settle(t, "restored")
	wantTaken(t, dsn, "restored", books)
}

// numbers are the business numbers that came, by day.
type numbers struct {
	mu       sync.Mutex
	days     map[string]map[string]bool
	problems []string
}

var numberShape = regexp.MustCompile(`^"ORD-(\d{8})-(\d{6,})"$`)

// draw asks for numbers and enters them; it says whether they came.
func (n *numbers) draw(d *daemon, count int) bool {
	a, err := d.do(http.MethodPost, fmt.Sprint("/v1/segment/orders/ids?count=", count))
	if err != nil || a.status != 200 {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range a.IDs {
		part := numberShape.FindStringSubmatch(string(id))
		if part == nil || len(a.IDs) != count || n.days[part[1]][part[2]] {
			n.problems = append(n.problems, fmt.Sprintf("%s came twice, or %d were asked for: %s", id, count, a.body))
			return true
		}
		if n.days[part[1]] == nil {
			n.days[part[1]] = map[string]bool{}
		}
		n.days[part[1]][part[2]] = true
	}
	return true
}

// settle wants so many days, each of which begins at 1.
func (n *numbers) settle(t *testing.T, days int) {
	t.Helper()
	for _, p := range n.problems {
		t.Error(p)
	}
	if len(n.days) != days {
		t.Errorf("numbers of %d days, want %d", len(n.days), days)
	}
	for day, of := range n.days {
		if t.Logf("%s: %d numbers", day, len(of)); !of["000001"] || len(of) < 100 {
			t.Errorf("%s has %d numbers, want 100 that begin with 000001: %t", day, len(of), of["000001"])
		}
	}
}

// addNumbers makes the tag of business numbers, in a zone whose day ends at the next minute that is at least so
// long away.
func addNumbers(t *testing.T, dsn string, least time.Duration) (midnight time.Time) {
	t.Helper()
	midnight = time.Now().UTC().Add(least).Truncate(time.Minute).Add(time.Minute)
	sign, offset := '-', midnight.Sub(midnight.Truncate(24*time.Hour))
	if offset > 12*time.Hour {
		sign, offset = '+', 24*time.Hour-offset
	}
	zone := fmt.Sprintf("%c%02d:%02d", sign, int(offset.Hours()), int(offset.Minutes())%60)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "50",
		"--pattern", "ORD-{yyyyMMdd}-{seq:6}", "--reset", "day", "--zone", zone)
	return midnight
}

// TestNumbers: two replicas issue business numbers. None comes twice, the day's first is 1, and who asks for
// plain IDs of their tag is refused.
func TestNumbers(t *testing.T) {
	story(t)
	dsn, came := migrated(t), &numbers{days: map[string]map[string]bool{}}
	replicas := serveReady(t, 2, onlySegments(dsn))
	addNumbers(t, dsn, 10*time.Minute)
	for i := range 50 {
		eventually(t, startLimit, "a number", func() bool { return came.draw(replicas[i%2], 1+i%7) })
	}
	came.settle(t, 1)
	replicas[0].want(segmentGet+"orders", 400, -6)
	replicas[0].want("/v1/segment/orders/ids?ranges=true", 400, -6)
}

// TestNumbersOverMidnight: one replica is killed and replaced before midnight, and the database restarts
// after it. No number comes twice, and each day begins at 1.
func TestNumbersOverMidnight(t *testing.T) {
	check.Deep(t)
	story(t)
	s, came := privateStores(t), &numbers{days: map[string]map[string]bool{}}
	replicas := serveReady(t, 2, s.settings())
	midnight := addNumbers(t, s.dsn, 10*time.Second)
	var now [2]atomic.Pointer[daemon]
	now[0].Store(replicas[0])
	now[1].Store(replicas[1])
	var callers rig.Callers
	callers.Start(t, 6, func(ctx context.Context, caller int) {
		for ; ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
			came.draw(now[caller%2].Load(), 1+caller)
		}
	})
	for _, d := range replicas {
		eventually(t, startLimit, "each replica issues", func() bool { return came.draw(d, 1) })
	}
	replicas[1].Kill()
	third := serve(t, s.settings())
	third.ready()
	now[1].Store(third)
	time.Sleep(time.Until(midnight.Add(2 * time.Second)))
	s.db.Restart()
	eventually(t, startLimit, "numbers after the restart", func() bool { return came.draw(third, 500) })
	callers.Stop()
	came.settle(t, 2)
}

// Test200000Tags: a table that is read in many parts. A tag works soon after the start, whether it was met or
// not, all of them are shown later, and a removed one vanishes.
func Test200000Tags(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := migrated(t)
	query(t, dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) "+
		"WITH digit AS (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 "+
		"UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) "+
		"SELECT CONCAT('customer-', u.n, v.n, w.n, x.n, y.n, z.n), 1, 1000 "+
		"FROM digit u, digit v, digit w, digit x, digit y, digit z WHERE u.n < 2")
	d := serve(t, onlySegments(dsn))
	var ids []int64
	eventually(t, startLimit, "the last tag works", func() bool {
		ids, _, _ = d.take(segmentGet+"customer-199999", 2)
		return ids != nil
	})
	if !slices.Equal(ids, []int64{1, 2}) {
		t.Errorf("IDs %v, want 1 and 2", ids)
	}
	d.want(segmentGet+"customer-200000", 404, -2)
	shown := func() int {
		a, err := d.do(http.MethodGet, "/cache?limit=1", "Accept", "application/json")
		check.Must(t, err)
		return fromJSON[struct{ Total int }](t, a).Total
	}
	eventually(t, time.Minute, "all tags are shown", func() bool { return shown() == 200_000 })
	query(t, dsn, "DELETE FROM leaf_alloc WHERE biz_tag = 'customer-000077'")
	eventually(t, 3*time.Minute, "a removed tag vanishes", func() bool { return shown() == 199_999 })
	d.want(segmentGet+"customer-000077", 404, -2)
	if bad := d.Lines("deadline exceeded"); len(bad) > 0 {
		t.Errorf("%s", bad)
	}
}
