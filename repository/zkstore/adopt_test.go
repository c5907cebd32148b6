//go:build unix

package zkstore_test

import (
	"errors"
	"path"
	"strconv"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/zkstore"
)

// fillTheirs makes the tree of NotFound9's fork of Leaf: a pool of 1025 worker IDs, the
// first used of which instances have taken, that reported a moment ago.
func (w world) fillTheirs(used int) {
	w.t.Helper()
	c := w.client()
	for id := range model.SnowflakeWorkers + 1 {
		name := "workId:" + strconv.Itoa(id)
		if id < used {
			w.write(c, path.Join(w.pool("inuse"), name), `{"ip":"10.9.9.9","port":"`+strconv.Itoa(id)+`","timestamp":`+strconv.FormatInt(time.Now().UnixMilli(), 10)+`}`)
		} else {
			w.write(c, path.Join(w.pool("notuse"), name), "")
		}
	}
}

// A worker ID that an instance of NotFound9's fork holds is not taken, one of its pool is,
// and leaves it.
func TestRecycleAdoptsTheirTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(model.SnowflakeWorkers - 2)
	c, s := w.client(), w.mode(zkstore.ModeRecycle)
	began := time.Now().UnixMilli()
	for i := range 2 {
		lease := acquire(t, s, owner(i))
		if lease.WorkerID < model.SnowflakeWorkers-2 || lease.After < began-minute {
			t.Errorf("%+v", lease)
		}
	}
	if left := w.children(c, w.pool("notuse")); len(left) != 1 || left[0] != "workId:1024" {
		t.Errorf("their pool holds %v", left)
	}
	if _, err := s.Acquire(t.Context(), owner(2)); err == nil {
		t.Error("a worker ID in use was taken")
	}
	if again := acquire(t, w.mode(zkstore.ModeRecycle), owner(0)); again.WorkerID < model.SnowflakeWorkers-2 {
		t.Errorf("%+v", again)
	}
	peers, err := s.Peers(t.Context())
	if err != nil || len(peers) < model.SnowflakeWorkers-2 {
		t.Errorf("%d peers, %v", len(peers), err)
	}
}

// An instance of NotFound9's fork that is silent keeps its worker ID for an hour, whatever
// the margin.
func TestRecycleLeavesTheirsForAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(model.SnowflakeWorkers)
	s := w.open(zkstore.Options{Mode: zkstore.ModeRecycle, ReclaimMargin: time.Millisecond})
	time.Sleep(100 * time.Millisecond)
	if lease, err := s.Acquire(t.Context(), owner(0)); !errors.Is(err, model.ErrNoWorkerID) {
		t.Errorf("%+v, %v", lease, err)
	}
}

// A name that is unknown may stand for a worker ID in use.
func TestRecycleRefusesUnknownNames(t *testing.T) {
	t.Parallel()
	for _, pool := range []string{"inuse", "notuse"} {
		for _, name := range []string{"workId:1025", "workid:7", "07", "seven"} {
			w := newWorld(t)
			w.write(w.client(), path.Join(w.pool(pool), name), "")
			_, err := w.mode(zkstore.ModeRecycle).Acquire(t.Context(), owner(0))
			wantAdvice(t, err, strconv.Quote(name), w.pool(pool), "snowflake.name")
		}
	}
}
