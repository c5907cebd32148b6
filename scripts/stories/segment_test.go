//go:build unix

// Tags of the segment mode, as Leaf has them, and their business numbers: replicas share one table.

package stories_test

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

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

// wantTaken: all that was issued is below max_id.
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
	asks := func(target string) func() []int64 {
		return func() []int64 { return idsIn(two.askAny(target)) }
	}
	tinyid := func() []int64 {
		return tinyidRun(two.askAny("/tinyid/id/nextSegmentIdSimple?bizType=orders&token=any"))
	}
	clients := []func() []int64{
		asks(segmentGet + "orders?count=7"), asks("/v1/segment/orders/ids?count=40"),
		asks("/tinyid/id/nextIdSimple?bizType=orders&batchSize=30&token=any"), tinyid, tinyid,
	}
	drawn := make([]atomic.Int64, len(clients))
	var callers rig.Callers
	callers.Start(t, len(clients), func(ctx context.Context, caller int) {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			ids := clients[caller]()
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

// tinyidRun are the first IDs that a client of tinyid counts on its own; it ends, and takes the rest with it. An answer
// says how far its run has come, when to ask for the next one, its end, the distance of two IDs, and their remainder.
func tinyidRun(answer string) (ids []int64) {
	var id, loading, most, delta, remainder int64
	n, _ := fmt.Sscanf(answer, "%d,%d,%d,%d,%d", &id, &loading, &most, &delta, &remainder)
	for n == 5 && id+delta <= most && len(ids) < 500 {
		id += delta
		ids = append(ids, id)
	}
	return ids
}

// TestTagsComeAndGo: tags are made in the table, used, and removed, while another one is asked for hard.
func TestTagsComeAndGo(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "1000")
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "订单 & more", "--step", "10", "--max-id", "7")
	replicas := serveReady(t, 2, onlySegments(dsn))
	const oddGet = segmentGet + "%E8%AE%A2%E5%8D%95%20&%20more"
	orders, odd, books := &ledger{}, &ledger{}, &ledger{}
	var draws []draw
	for _, d := range replicas {
		draws = append(draws, draw{place: at(d), target: segmentGet + "orders", batch: 50, books: orders},
			draw{place: at(d), target: oddGet, books: odd})
	}
	callers := gather(t, 8, draws...)
	const late = segmentGet + "late"
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
	query(t, dsn, "DELETE FROM leaf_alloc WHERE biz_tag = 'late'")
	for _, d := range replicas {
		eventually(t, startLimit, "the removed tag vanishes", func() bool {
			d.want(segmentGet+"unknown", 404, -2) // has the tags read
			return d.get(late).status == 404
		})
	}
	reach(t, odd, 1000)
	reach(t, orders, 10_000)
	callers.Stop()
	for what, books := range map[string]*ledger{"orders": orders, "odd": odd, "late": books} {
		books.Settle(t, what)
	}
	wantTaken(t, dsn, "orders", orders)
}

// TestNumbers: two replicas issue business numbers. None comes twice, the day's first is 1, and who asks for
// plain IDs of their tag is refused.
func TestNumbers(t *testing.T) {
	story(t)
	dsn := migrated(t)
	replicas := serveReady(t, 2, onlySegments(dsn))
	zone := "+00:00"
	if time.Now().UTC().Hour()%23 == 0 { // the day must not end meanwhile
		zone = "+12:00"
	}
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "50",
		"--pattern", "ORD-{yyyyMMdd}-{seq:6}", "--reset", "day", "--zone", zone)
	shape, came := regexp.MustCompile(`^"ORD-\d{8}-(\d{6,})"$`), map[string]bool{}
	for i := range 50 {
		var a answer
		eventually(t, startLimit, "numbers", func() bool {
			a = replicas[i%2].get(fmt.Sprint("/v1/segment/orders/ids?count=", 1+i%7))
			return a.status == 200
		})
		if len(a.IDs) != 1+i%7 {
			t.Errorf("%d numbers, want %d: %s", len(a.IDs), 1+i%7, a.body)
		}
		for _, id := range a.IDs {
			part := shape.FindStringSubmatch(string(id))
			if part == nil || came[part[1]] {
				t.Fatalf("%s is no number, or came twice", id)
			}
			came[part[1]] = true
		}
	}
	if !came["000001"] {
		t.Error("the day's first number is not 1")
	}
	replicas[0].want(segmentGet+"orders", 400, -6)
	replicas[0].want("/v1/segment/orders/ids?ranges=true", 400, -6)
}
