//go:build unix

package zkstore_test

import (
	"path"
	"slices"
	"strconv"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
)

func (w world) pool(name string) string { return path.Join(w.root(), "recycle", name) }

// Only one whose lease ran out longer than the margin ago loses its worker ID.
func TestRecycleReclaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	s := w.open(zkstore.Options{Mode: zkstore.ModeRecycle, ReclaimMargin: time.Minute})
	live := time.Now().UnixMilli() + hour
	w.fillRecycle(c, live)
	w.set(t, 17, live-hour-2*minute) // expired long enough ago
	w.set(t, 18, live-hour-minute/2) // within the margin
	w.set(t, 19, 0)                  // but acquired a moment ago
	w.write(c, path.Join(w.pool("inuse"), "19"), `{"ip":"10.1.1.1","port":"19","token":"t","acquired":`+strconv.FormatInt(live-hour, 10)+`}`)
	w.write(c, path.Join(w.pool("inuse"), "20"), "rubbish")
	w.write(c, path.Join(w.pool("address"), "10.1.1.1:17"), "17")
	lease := acquire(t, s, owner(0))
	if lease.WorkerID != 17 || lease.After != live-hour-2*minute {
		t.Errorf("%+v", lease)
	}
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(1))), model.ErrNoWorkerID)
	if index := w.children(c, w.pool("address")); len(index) != 2 || !slices.Contains(index, owner(0).Address) || !slices.Contains(index, owner(0).Identity) {
		t.Errorf("the addresses are %v", index)
	}
}

// set makes a worker ID of fillRecycle expire then.
func (w world) set(t *testing.T, id int, expires int64) {
	t.Helper()
	w.write(w.client(), path.Join(w.pool("inuse"), strconv.Itoa(id)),
		`{"ip":"10.1.1.1","port":"`+strconv.Itoa(id)+`","identity":"someone","token":"t","reserved":7,"expires":`+strconv.FormatInt(expires, 10)+`}`)
}

// A worker ID is in one pool or in none; worker IDs are 0…1023.
func TestRecyclePools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, s := w.client(), w.mode(zkstore.ModeRecycle)
	w.fillRecycle(c, time.Now().UnixMilli()+hour)
	w.allow(c.Delete(path.Join(w.pool("inuse"), "1023"), -1))
	w.write(c, path.Join(w.pool("notuse"), "1024"), "") // of the original, one too many
	for round := range 3 {
		lease := acquire(t, s, owner(round))
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
	t.Parallel()
	w := newWorld(t)
	c, s := w.client(), w.mode(zkstore.ModeRecycle)
	w.fillRecycle(c, time.Now().UnixMilli()+hour)
	for _, id := range []string{"5", "6"} { // the first makes the folders, which would disturb the second
		w.allow(c.Delete(path.Join(w.pool("inuse"), id), -1))
		came := false
		s.before(func() {
			if id == "6" && !came {
				w.write(c, path.Join(w.pool("notuse"), id), `{"ip":"10.1.1.1","port":"6","reserved":9000,"expires":9000}`)
				came = true
			}
		})
		lease := acquire(t, s, model.Owner{Address: "10.2.2.2:" + id, Token: id})
		if strconv.Itoa(lease.WorkerID) != id || came && lease.After != 9000 {
			t.Errorf("%+v", lease)
		}
	}
}
