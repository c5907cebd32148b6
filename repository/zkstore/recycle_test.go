//go:build unix

package zkstore_test

import (
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
)

func (w world) pool(name string) string { return path.Join(w.root(), "recycle", name) }

// Only one whose lease ran out longer than the margin ago loses its worker ID.
func TestRecycleReclaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	s := w.open(zkstore.Options{Mode: zkstore.ModeRecycle, ReclaimMargin: time.Hour})
	live := time.Now().UnixMilli() + hour
	w.fillRecycle(c, live)
	w.set(t, 17, live-hour-2*hour) // expired long enough ago
	w.set(t, 18, live-hour-hour/2) // within the margin
	w.set(t, 19, 0)                // but acquired a moment ago
	w.write(c, path.Join(w.pool("inuse"), "19"),
		`{"ip":"10.1.1.1","port":"19","token":"t","acquired":`+strconv.FormatInt(live-hour, 10)+`}`)
	w.write(c, path.Join(w.pool("inuse"), "20"), "rubbish")
	w.write(c, path.Join(w.pool("address"), "10.1.1.1:17"), "17")
	lease := workertest.Acquire(t, s, owner(0))
	if lease.WorkerID != 17 || lease.After != live-hour-2*hour {
		t.Errorf("%+v", lease)
	}
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(1))), model.ErrNoWorkerID)
	if index := w.children(c, w.pool("address")); len(index) != 2 || !slices.Contains(index, owner(0).Address) ||
		!slices.Contains(index, owner(0).Identity) {
		t.Errorf("the addresses are %v", index)
	}
}

// set makes a worker ID of fillRecycle expire then.
func (w world) set(t *testing.T, id int, expires int64) {
	t.Helper()
	w.write(w.client(), path.Join(w.pool("inuse"), strconv.Itoa(id)),
		`{"ip":"10.1.1.1","port":"`+strconv.Itoa(id)+`","identity":"someone","token":"t","reserved":7,"expires":`+
			strconv.FormatInt(expires, 10)+`}`)
}

// A worker ID is in one pool or in none; worker IDs are 0…1023.
func TestRecyclePools(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeRecycle)
	w.fillRecycle(c, time.Now().UnixMilli()+hour)
	w.allow(c.Delete(path.Join(w.pool("inuse"), "1023"), -1))
	w.write(c, path.Join(w.pool("notuse"), "1024"), "") // of the original, one too many
	for round := range 3 {
		lease := workertest.Acquire(t, s, owner(round))
		if lease.WorkerID != 1023 || lease.After != int64(round)*second {
			t.Errorf("round %d: %+v", round, lease)
		}
		check.Equal(t, len(w.children(c, w.pool("notuse"))), 1, "not in use")
		lease.Reserved = int64(round+1) * second
		check.Must(t, s.Release(t.Context(), lease))
		check.Equal(t, len(w.children(c, w.pool("inuse"))), model.SnowflakeWorkers-1, "in use")
	}
	check.Equal(t, len(w.children(c, w.pool("address"))), 2, "addresses")
}

// A first holder must not get past one that came and went meanwhile, whose bounds
// it would not know.
func TestRecycleSlowFirst(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeRecycle)
	w.fillRecycle(c, time.Now().UnixMilli()+hour)
	for _, id := range []string{"5", "6"} { // the first makes the folders, which would disturb the second
		w.allow(c.Delete(path.Join(w.pool("inuse"), id), -1))
		came := false
		s.before(func() {
			if id == "6" && !came {
				w.write(c, path.Join(w.pool("notuse"), id),
					`{"ip":"10.1.1.1","port":"6","reserved":9000,"expires":9000}`)
				came = true
			}
		})
		lease := workertest.Acquire(t, s, model.Owner{Address: "10.2.2.2:" + id, Token: id})
		if strconv.Itoa(lease.WorkerID) != id || came && lease.After != 9000 {
			t.Errorf("%+v", lease)
		}
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

// A session that ended is a lost lease. The process takes a worker ID anew, above
// what it had reserved.
func TestEphemeralSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.mode(zkstore.ModeEphemeral)
	lease := workertest.Acquire(t, s, owner(0))
	reserved := lease.ServerTime + hour
	lease = workertest.Renew(t, s, lease, reserved, reserved+second)
	w.expire(s)
	other := w.mode(zkstore.ModeEphemeral)
	if next := workertest.Acquire(t, other, owner(1)); next.WorkerID != 0 || next.After != reserved+second {
		t.Errorf("the next is %+v", next)
	}
	s.mend()
	workertest.WantLost(t, s, lease)
	check.Equal(t, workertest.Acquire(t, s, owner(0)).WorkerID, 1, "again")
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

// held acquires and renews. Its session is so short that a busy machine may lose
// it in between.
func held(t *testing.T, s instance) (lease model.Lease) {
	t.Helper()
	check.Eventually(t, "hold a worker ID", func() (err error) {
		if lease, err = s.Acquire(t.Context(), owner(0)); err == nil {
			lease, err = s.Renew(t.Context(), workertest.With(lease, 1000, 2000))
		}
		return err
	})
	return lease
}

// Removed by hand, the worker ID is lost, and another comes.
func TestEphemeralRemovedByHand(t *testing.T) {
	w, c, s := alone(t, zkstore.ModeEphemeral)
	lease := workertest.Renew(t, s, workertest.Acquire(t, s, owner(0)), 1000, 2000)
	w.allow(c.Delete(lease.Node, -1))
	check.Is(t, check.Err(s.Renew(t.Context(), lease)), model.ErrLeaseLost, "renewed")
	if next := workertest.Acquire(t, s, owner(0)); next.WorkerID != 0 || next.After != 1000 {
		t.Errorf("%+v", next)
	}
}
