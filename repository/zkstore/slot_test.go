//go:build unix

package zkstore_test

import (
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
)

// forkNode is a node as NotFound9's fork of Leaf writes it, by Jackson from a class of these
// four fields: null before the first use.
func forkNode(id int, lastUsed int64) string {
	if lastUsed == 0 {
		return fmt.Sprintf(`{"workId":%d,"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":null}`, id)
	}
	return fmt.Sprintf(`{"workId":%d,"lastUsedIp":"10.9.9.9","lastUsedPort":"%d","lastUsedTimestamp":%d}`, id, id,
		lastUsed)
}

// TestForkTreeIsTakenOver: a worker ID that the fork has in use is not taken, whatever the margin,
// as it may be used for an hour. One of its pool is taken and leaves it for good, with its bounds.
func TestForkTreeIsTakenOver(t *testing.T) {
	w, c, _ := alone(t, zkstore.ModeRecycle)
	began := time.Now().UnixMilli()
	for id := range 9 { // one too many, as the fork makes them
		pool, used := "inuse", began
		if id >= 6 {
			pool, used = "notuse", 0
		}
		w.write(c, path.Join(w.pool(pool), fmt.Sprint("workId:", id)), forkNode(id, used))
	}
	o := zkstore.Options{Mode: zkstore.ModeRecycle, Workers: 8, ReclaimMargin: time.Millisecond}
	s := w.open(o)
	var leases []model.Lease
	for i := range 2 {
		lease := workertest.Acquire(t, s, owner(i))
		if lease.WorkerID < 6 || lease.After < began-minute || lease.After > began+minute {
			t.Errorf("%+v", lease)
		}
		leases = append(leases, workertest.Renew(t, s, lease, lease.After+second, lease.After+hour))
	}
	check.Equal(t, fmt.Sprint(w.children(c, w.pool("notuse"))), "[workId:8]", "the fork's pool")
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(2))), model.ErrNoWorkerID)
	check.Equal(t, workertest.Acquire(t, w.open(o), owner(0)).WorkerID, leases[0].WorkerID)
	check.Must(t, s.Release(t.Context(), workertest.With(leases[1], leases[1].Reserved, leases[1].Reserved)))
	var next model.Lease
	check.Eventually(t, "what it reserved, seconds ahead, passes", func() (err error) {
		next, err = s.Acquire(t.Context(), owner(2))
		return err
	})
	check.Equal(t, next.WorkerID, leases[1].WorkerID)
	check.Equal(t, next.After, leases[1].Reserved)
}

// onlyFork is a world where worker ID 7 is in the pool of the fork, and all others are held.
func onlyFork(t *testing.T, data string) (world, *zk.Conn, instance) {
	t.Helper()
	w, c, s := recycled(t)
	w.allow(c.Delete(path.Join(w.pool("inuse"), "7"), -1))
	w.write(c, path.Join(w.pool("notuse"), "workId:7"), data)
	return w, c, s
}

// TestForkTimesAreLeftOut: a lease starts above the lastUsedTimestamp, and the hour that the holder
// may have gone on for.
func TestForkTimesAreLeftOut(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMilli()
	for name, lastUsed := range map[string]int64{"an hour ahead": now + hour, "a minute ago": now - minute,
		"two hours ago": now - 2*hour} {
		t.Run(name, func(t *testing.T) {
			_, _, s := onlyFork(t, forkNode(7, lastUsed))
			lease := workertest.Acquire(t, s, owner(0))
			if least := max(lastUsed+hour, now); lease.WorkerID != 7 || lease.After < least ||
				lease.After > max(least, time.Now().UnixMilli())+minute {
				t.Errorf("worker ID %d above %+d ms, want 7 above %+d", lease.WorkerID, lease.After-now, least-now)
			}
		})
	}
}

// TestForkNodeIsNoRecord: what does not say when the worker ID was used is left alone.
func TestForkNodeIsNoRecord(t *testing.T) {
	w, c, s := onlyFork(t, "")
	at := path.Join(w.pool("notuse"), "workId:7")
	for _, data := range []string{"", `{"workId":7,"lastUsedTimestamp":15677`,
		`{"workId":7,"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":"yesterday"}`} {
		w.write(c, at, data)
		wantAdvice(t, check.Err(s.Acquire(t.Context(), owner(0))), at, "snowflake.name")
		check.Equal(t, w.read(c, at), data, "the node")
	}
}

// TestForkMoves: an instance of the fork removes the node from one pool before it makes it in the
// other. A worker ID in neither of them is not free.
func TestForkMoves(t *testing.T) {
	w, c, s := onlyFork(t, forkNode(7, 0))
	w.write(c, path.Join(w.pool("inuse"), "workId:6"), forkNode(6, 0)) // which says that the tree is the fork's
	w.allow(c.Delete(path.Join(w.pool("notuse"), "workId:7"), -1))
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(0))), model.ErrNoWorkerID)
	w.write(c, path.Join(w.pool("notuse"), "workId:7"), forkNode(7, 0))
	check.Equal(t, workertest.Acquire(t, s, owner(0)).WorkerID, 7, "once it is there")
}
