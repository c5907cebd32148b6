//go:build unix

// Tags of the segment mode, as Leaf has them: replicas share one table.

package stories_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// leafTable is the table as Leaf's users have made it.
const leafTable = "CREATE TABLE `leaf_alloc` (`biz_tag` varchar(128) NOT NULL DEFAULT '', " +
	"`max_id` bigint(20) NOT NULL DEFAULT '1', `step` int(11) NOT NULL, `description` varchar(256) DEFAULT NULL, " +
	"`update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, " +
	"PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB"

// TestLeafSegmentReplicas: clients of Leaf, of /v1 and of tinyid draw from one tag, from two replicas. No ID comes
// twice, and max_id is above all of them.
func TestLeafSegmentReplicas(t *testing.T) {
	story(t)
	dsn, books := migrated(t), &ledger{}
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--step", "500")
	patient := settings{"SNOWFLAKE_ENABLED": "false", "SERVER_REQUEST_TIMEOUT": "10s"}
	replicas := serveReady(t, 2, onMariaDB(dsn).With(onlyLeaf()).With(patient))
	anyID := regexp.MustCompile(`[1-9]\d*`)
	all := func(body string) (ids []int64) {
		for _, digits := range anyID.FindAllString(body, -1) {
			id, _ := strconv.ParseInt(digits, 10, 64) // 0, which is no ID, for anything else
			ids = append(ids, id)
		}
		return ids
	}
	var callers sync.WaitGroup
	for target, idsOf := range map[string]func(body string) []int64{
		segmentGet + "orders?count=7":                                   all,
		"/v1/segment/orders/ids?count=40":                               all,
		"/tinyid/id/nextIdSimple?bizType=orders&batchSize=30&token=any": all,
		"/tinyid/id/nextSegmentIdSimple?bizType=orders&token=any":       tinyidRun,
	} {
		for _, d := range replicas {
			callers.Go(func() {
				for range 100 {
					a, err := d.do(http.MethodGet, target)
					if ids := idsOf(a.body); err == nil && a.status == http.StatusOK && len(ids) > 0 {
						books.Add(target, plain, ids...)
					} else {
						books.Complain("%s: %d %s, %v", target, a.status, a.body, err)
					}
				}
			})
		}
	}
	callers.Wait()
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
