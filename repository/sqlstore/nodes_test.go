//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/scripts/check"
)

// aStart is a start at second now with room for some worker IDs.
func aStart(token string, workers, now int64) nodeStart {
	return nodeStart{"host", workers, token, now, now + 3600}
}

func register(t testing.TB, s *Store, start nodeStart) nodeRow {
	t.Helper()
	node, err := s.registerStart(context.Background(), start)
	check.Must(t, err)
	return node
}

func TestRegisterStartRecycles(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		const now = 1_800_000_000
		const java = "INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) VALUES " +
			"('java', '1', 1, '2020-01-01', CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)"
		run(t, s, java, java, "DELETE FROM WORKER_NODE WHERE ID = 2")
		for i := range int64(3) { // worker IDs 3…5, marks in falling order
			node := register(t, s, aStart(fmt.Sprint("t", i), 6, now-10*i))
			check.Equal(t, count(t, s, "SELECT node_last FROM shardid_deployment"), node.ID, "the last start")
		}
		refused := func(at int64) {
			t.Helper()
			got, err := s.registerStart(t.Context(), aStart("new", 6, at))
			if !errors.Is(err, model.ErrNoWorkerID) || got != (nodeRow{}) ||
				!strings.Contains(err.Error(), "uid.worker_bits") {
				t.Errorf("%+v, %v", got, err)
			}
		}
		refused(now)
		refused(now - 20 + 3600) // the mark itself may have been issued
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM WORKER_NODE"), 4, "rows are left by refused starts")
		want := nodeRow{ID: 5, Token: "new", UsedUntil: now + 3581 + 3600}
		for range 2 {
			check.Equal(t, register(t, s, aStart("new", 6, now+3581)), want)
		}
		check.Is(t, check.Err(s.registerStart(t.Context(), aStart("newer", 6, now+3581))), model.ErrNoWorkerID,
			"a row that was just taken over")
		got := register(t, s, aStart("last", 6, now+1_000_000))
		if got.ID != 4 || got.UsedUntil != now+1_003_600 {
			t.Errorf("got %+v", got)
		}
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM WORKER_NODE WHERE HOST_NAME = 'java' AND TOKEN IS NULL"), 1,
			"the original's row that is left")
		// After a failover a worker ID rests for a day: its mark may have been higher.
		run(t, s, "UPDATE shardid_deployment SET oldest_copy = 1")
		check.Is(t, check.Err(s.registerStart(t.Context(), aStart("late", 6, now+3600+nodeRest))), model.ErrNoWorkerID,
			"it rests")
		check.Equal(t, register(t, s, aStart("late", 6, now+3601+nodeRest)).ID, 3, "a day later")
	})
}

// A worker ID whose user raises its mark at that moment is not given away.
func TestNodeChangedRow(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		node := register(t, s, aStart("a", 2, 1_800_000_000))
		for _, old := range []nodeRow{
			{ID: 1, Token: "a", UsedUntil: 1_800_003_599}, {ID: 1, Token: "b", UsedUntil: 1_800_003_600},
			{ID: 1, UsedUntil: 1_800_003_600},
		} {
			err := s.inTx(t.Context(), "test", func(tx *gorm.DB) error {
				return takeNode(tx, old, aStart("new", 2, 1_900_000_000))
			})
			check.Is(t, err, errRowChanged, old)
		}
		lease := model.Lease{WorkerID: int(node.ID), Owner: model.Owner{Token: "a"}, Reserved: 1_800_009_999_000}
		check.OK(t, check.Err(s.Nodes("host", 2).Renew(t.Context(), lease)))
	})
}

// WORKER_NODE as a registry: what a lease reserves is the mark of its row, which no release lowers, and the next
// start, as a repeated one, begins above it.
func TestNodes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		nodes := s.Nodes(strings.Repeat("h", 65), 2)
		began := time.Now().Unix()
		lease, err := nodes.Acquire(t.Context(), model.Owner{Token: "a"})
		check.Must(t, err)
		if lease.WorkerID != 1 || lease.After < 1000*(began-1) || lease.After >= 1000*time.Now().Unix() {
			t.Errorf("%+v", lease)
		}
		row := text(t, s, "SELECT CONCAT(HOST_NAME, ' ', TYPE, ' ', LAUNCH_DATE) FROM WORKER_NODE")
		check.Equal(t, row, strings.Repeat("h", 64)+" 2 "+time.Unix(began, 0).Format(time.DateOnly))
		port := text(t, s, "SELECT PORT FROM WORKER_NODE")
		if !regexp.MustCompile(`^\d{13}-\d{1,5}$`).MatchString(port) {
			t.Errorf("port %q", port)
		}
		mark := time.Now().Unix() + 7200
		lease.Reserved = 1000*mark + 999
		check.OK(t, check.Err(nodes.Renew(t.Context(), lease)))
		lease.Reserved = lease.After
		check.OK(t, check.Err(nodes.Renew(t.Context(), lease)))
		check.OK(t, nodes.Release(t.Context(), lease))
		check.Equal(t, count(t, s, "SELECT USED_UNTIL FROM WORKER_NODE"), mark, "mark")
		again, err := nodes.Acquire(t.Context(), model.Owner{Token: "a"})
		if err != nil || again.After != 1000*mark {
			t.Errorf("again %+v, %v", again, err)
		}
		check.Is(t, check.Err(nodes.Acquire(t.Context(), model.Owner{Token: "b"})), model.ErrNoWorkerID,
			"its mark is ahead")
		run(t, s, "UPDATE WORKER_NODE SET USED_UNTIL = 1000")
		next, err := nodes.Acquire(t.Context(), model.Owner{Token: "b"})
		if err != nil || next.WorkerID != 1 || next.After < 1000*(began-1) {
			t.Errorf("next %+v, %v", next, err)
		}
		check.Is(t, check.Err(nodes.Renew(t.Context(), lease)), model.ErrLeaseLost, "taken over")
		run(t, s, "UPDATE WORKER_NODE SET TOKEN = NULL")
		check.Is(t, check.Err(nodes.Renew(t.Context(), model.Lease{WorkerID: 1})), model.ErrLeaseLost, "Baidu's row")
		run(t, s, "DELETE FROM WORKER_NODE")
		check.Is(t, check.Err(nodes.Renew(t.Context(), next)), model.ErrLeaseLost, "no row")
	})
}
