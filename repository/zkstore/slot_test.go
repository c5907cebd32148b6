//go:build unix

package zkstore_test

import (
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
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

// fillFork makes the tree of NotFound9's fork: a pool of 1025 worker IDs, the first used
// of which instances have taken, that reported a moment ago.
func (w world) fillFork(used int) {
	w.t.Helper()
	c := w.client()
	now := time.Now().UnixMilli()
	for _, pool := range []string{"inuse", "notuse"} {
		w.write(c, path.Join(w.pool(pool), "x"), "")
		w.allow(c.Delete(path.Join(w.pool(pool), "x"), -1))
	}
	w.inBatches(c, model.SnowflakeWorkers+1, func(id int) any {
		name := "workId:" + strconv.Itoa(id)
		request := zk.CreateRequest{Path: path.Join(w.pool("notuse"), name), Data: []byte(forkNode(id, 0)),
			Acl: zk.WorldACL(zk.PermAll)}
		if id < used {
			request.Path, request.Data = path.Join(w.pool("inuse"), name), []byte(forkNode(id, now))
		}
		return &request
	})
}

// TestForkTreeIsTakenOver: a worker ID that the fork has in use is not taken, whatever the margin,
// as it may be used for an hour. One of its pool is taken and leaves it for good, with its bounds.
func TestForkTreeIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const free = model.SnowflakeWorkers - 2 // the first worker ID that the fork does not use
	w.fillFork(free)
	c := w.client()
	s := w.open(zkstore.Options{Mode: zkstore.ModeRecycle, ReclaimMargin: time.Millisecond})
	began := time.Now().UnixMilli()
	var leases []model.Lease
	for i := range 2 {
		lease := workertest.Acquire(t, s, owner(i))
		if lease.WorkerID < free || lease.After < began-minute || lease.After > began+minute {
			t.Errorf("%+v", lease)
		}
		leases = append(leases, workertest.Renew(t, s, lease, lease.After+second, lease.After+hour))
	}
	if left := w.children(c, w.pool("notuse")); len(left) != 1 || left[0] != "workId:1024" {
		t.Errorf("the fork's pool holds %v", left)
	}
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(2))), model.ErrNoWorkerID)
	again := workertest.Acquire(t, w.mode(zkstore.ModeRecycle), owner(0))
	check.Equal(t, again.WorkerID, leases[0].WorkerID)
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
	w, c, _ := alone(t, zkstore.ModeRecycle)
	s := w.open(zkstore.Options{Mode: zkstore.ModeRecycle, Workers: 64, ReclaimMargin: time.Hour}) // reads that many
	w.fillRecycle(c, time.Now().UnixMilli()+hour)
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

// TestForkNodeIsNoRecord: what does not say which worker ID was used, and when, is left alone.
func TestForkNodeIsNoRecord(t *testing.T) {
	w, c, s := onlyFork(t, "")
	at := path.Join(w.pool("notuse"), "workId:7")
	for name, data := range map[string]string{
		"nothing":             "",
		"malformed":           `{"workId":7,"lastUsedTimestamp":15677`,
		"no worker ID":        `{"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":null}`,
		"another worker ID":   forkNode(8, 0),
		"a time that is text": `{"workId":7,"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":"yesterday"}`,
		"a time below 1970":   forkNode(7, -1),
		"a time of no clock":  forkNode(7, math.MaxInt64),
	} {
		w.write(c, at, data)
		lease, err := s.Acquire(t.Context(), owner(0))
		if !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %+v, %v", name, lease, err)
		}
		check.Equal(t, w.read(c, at), data, name)
	}
	w.write(c, path.Join(w.pool("notuse"), "workId:9"), forkNode(9, 0))
	w.allow(c.Delete(path.Join(w.pool("inuse"), "9"), -1))
	check.Equal(t, workertest.Acquire(t, s, owner(0)).WorkerID, 9, "beside it")
}

// TestForkMoves: an instance of the fork removes the node from one pool before it makes it in the
// other. A worker ID in neither of them is not free.
func TestForkMoves(t *testing.T) {
	w, c, s := onlyFork(t, forkNode(7, 0))
	w.write(c, path.Join(w.pool("notuse"), "workId:1024"), forkNode(1024, 0))
	w.allow(c.Delete(path.Join(w.pool("notuse"), "workId:7"), -1))
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(0))), model.ErrNoWorkerID)
	w.write(c, path.Join(w.pool("notuse"), "workId:7"), forkNode(7, 0))
	check.Equal(t, workertest.Acquire(t, s, owner(0)).WorkerID, 7, "once it is there")
}

// TestForkTreeOfVersion03: replicas of 0.3 kept their records beside the fork's pools, and wrote the
// fork's nodes. A worker ID that one of them holds is not taken.
func TestForkTreeOfVersion03(t *testing.T) {
	now := time.Now().UnixMilli()
	w, c, s := onlyFork(t, forkNode(7, 0))
	w.allow(c.Delete(path.Join(w.pool("notuse"), "workId:7"), -1))
	w.write(c, path.Join(w.pool("shardid"), "7"), fmt.Sprintf(`{"ip":"10.1.1.1","port":"7","token":"t","expires":%d}`,
		now+2*hour))
	w.write(c, path.Join(w.pool("inuse"), "workId:7"), forkNode(7, now+hour))
	check.Is(t, check.Err(s.Acquire(t.Context(), owner(0))), model.ErrNoWorkerID)
	w.write(c, path.Join(w.pool("notuse"), "workId:7"), w.read(c, path.Join(w.pool("inuse"),
		"workId:7"))) // an hour later
	w.allow(c.Delete(path.Join(w.pool("inuse"), "workId:7"), -1))
	if lease := workertest.Acquire(t, s, owner(0)); lease.WorkerID != 7 || lease.After < now+2*hour {
		t.Errorf("%+v, below the end of the lease", lease)
	}
}

// TestRecycleRefusesUnknownNames: a name that is unknown may stand for a worker ID in use.
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
