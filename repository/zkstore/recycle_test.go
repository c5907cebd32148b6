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
