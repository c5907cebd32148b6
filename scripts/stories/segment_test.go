//go:build unix

// Tags of the segment mode, as Leaf has them: replicas share one table.

package stories_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
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

// TestLeafSegmentReplicas: clients of Leaf, of /v1 and of tinyid draw from one tag, from two replicas that
// are killed and come back. No ID comes twice, and max_id is above all of them.
func TestLeafSegmentReplicas(t *testing.T) {
	story(t)
	dsn, books := migrated(t), &ledger{}
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "500")
	replicas := make([]*place, 2)
	for i := range replicas {
		replicas[i] = newPlace(t, fmt.Sprint("replica ", i),
			onMariaDB(dsn).With(onlyLeaf()).With(settings{"SNOWFLAKE_ENABLED": "false"}))
		replicas[i].start().ready()
	}
	answer := func(target string) string { // of one of the two; "" when it is a refusal or broken off
		d := replicas[rand.IntN(2)].now.Load()
		if d == nil {
			return ""
		}
		a, err := d.do(http.MethodGet, target)
		if err != nil || a.status != http.StatusOK {
			return ""
		}
		return a.body
	}
	anyID := regexp.MustCompile(`[1-9]\d*`)
	asks := func(target string) func() []int64 {
		return func() (ids []int64) {
			for _, digits := range anyID.FindAllString(answer(target), -1) {
				id, _ := strconv.ParseInt(digits, 10, 64)
				ids = append(ids, id)
			}
			return ids
		}
	}
	tinyid := func() []int64 {
		return tinyidRun(answer("/tinyid/id/nextSegmentIdSimple?bizType=orders&token=any"))
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
	for i := range 4 { // one after the other dies
		reach(t, books, books.Count()+3000)
		replicas[i%2].kill()
		replicas[i%2].start()
	}
	for i := range drawn {
		eventually(t, time.Minute, "each client has drawn 1000 IDs", func() bool { return drawn[i].Load() >= 1000 })
	}
	callers.Stop()
	books.Settle(t)
	next := valueOf[int64](t, dsn, "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'")
	if highest := books.Last(); highest >= next {
		t.Errorf("ID %d was issued, max_id is %d", highest, next)
	}
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
