//go:build unix

package zkstore_test

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
)

func (w world) pool(name string) string { return path.Join(w.root(), "recycle", name) }

// recycled is a world with 8 worker IDs, all of which somebody holds for an hour, and a store that leaves them alone
// for another one.
func recycled(t *testing.T) (world, *zk.Conn, instance) {
	t.Helper()
	w, c, _ := alone(t, zkstore.ModeRecycle)
	for id := range 8 {
		w.write(c, path.Join(w.pool("inuse"), strconv.Itoa(id)), fmt.Sprintf(
			`{"ip":"10.1.1.1","port":"%d","identity":"someone","token":"t","reserved":7,"expires":%d}`, id,
			time.Now().UnixMilli()+hour))
	}
	return w, c, w.open(zkstore.Options{Mode: zkstore.ModeRecycle, Workers: 8, ReclaimMargin: time.Hour})
}

// A worker ID is in one pool or in none.
func TestRecyclePools(t *testing.T) {
	w, c, s := recycled(t)
	w.allow(c.Delete(path.Join(w.pool("inuse"), "7"), -1))
	for round := range 3 {
		lease := workertest.Acquire(t, s, owner(round))
		if lease.WorkerID != 7 || lease.After != int64(round)*second {
			t.Errorf("round %d: %+v", round, lease)
		}
		check.Equal(t, len(w.children(c, w.pool("notuse"))), 0, "not in use")
		lease.Reserved = int64(round+1) * second
		check.Must(t, s.Release(t.Context(), lease))
		check.Equal(t, len(w.children(c, w.pool("inuse"))), 7, "in use")
	}
}

// A first holder must not get past one that came and went meanwhile, whose bounds
// it would not know.
func TestRecycleSlowFirst(t *testing.T) {
	w, c, s := recycled(t)
	w.allow(c.Delete(path.Join(w.pool("inuse"), "7"), -1))
	s.beforeNext(func() {
		w.write(c, path.Join(w.pool("notuse"), "7"), `{"ip":"10.1.1.1","port":"7","reserved":9000,"expires":9000}`)
	})
	lease := workertest.Acquire(t, s, owner(0))
	if lease.WorkerID != 7 || lease.After != 9000 {
		t.Errorf("%+v", lease)
	}
}

func (w world) locks() string { return path.Join("/lock", w.name) }

// The smallest free worker ID, among nodes that are nothing but numbers.
func TestEphemeralSmallest(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeEphemeral)
	var leases []model.Lease
	for i := range 4 {
		leases = append(leases, workertest.Acquire(t, s, owner(i)))
	}
	for _, i := range []int{2, 1} {
		check.Must(t, s.Release(t.Context(), leases[i]))
	}
	if next := workertest.Acquire(t, s, owner(9)); next.WorkerID != 1 {
		t.Errorf("worker ID %d, want 1", next.WorkerID)
	}
	names := w.children(c, w.root())
	slices.Sort(names)
	if !slices.Equal(names, []string{"0", "1", "3"}) {
		t.Errorf("nodes %v", names)
	}
	decodeLeaf(t, w.read(c, path.Join(w.root(), "0")))
}

// A process that has a new session while its old one has not ended yet keeps its
// worker ID, above what it had reserved.
func TestEphemeralNewSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.mode(zkstore.ModeEphemeral)
	lease := workertest.Acquire(t, old, owner(0))
	reserved := lease.ServerTime + second
	lease = workertest.Renew(t, old, lease, reserved, reserved+hour)
	s := w.mode(zkstore.ModeEphemeral)
	check.Is(t, check.Err(s.Renew(t.Context(), lease)), model.ErrLeaseLost, "renewed in another session")
	next := workertest.Acquire(t, s, owner(0))
	if next.WorkerID != 0 || next.After != reserved {
		t.Errorf("%+v", next)
	}
	if err := old.Close(); err != nil { // its session takes nothing along
		t.Fatal(err)
	}
	workertest.Renew(t, s, next, reserved+second, reserved+hour)
}

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
