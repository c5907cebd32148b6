//go:build unix

package zkstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
)

// theirNode is a node as NotFound9's fork of Leaf writes it, by Jackson from a class of these
// four fields: null before the first use.
func theirNode(id int, lastUsed int64) string {
	if lastUsed == 0 {
		return fmt.Sprintf(`{"workId":%d,"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":null}`, id)
	}
	return fmt.Sprintf(`{"workId":%d,"lastUsedIp":"10.9.9.9","lastUsedPort":"%d","lastUsedTimestamp":%d}`, id, id, lastUsed)
}

// fillTheirs makes the tree of NotFound9's fork: a pool of 1025 worker IDs, the first used
// of which instances have taken, that reported a moment ago.
func (w world) fillTheirs(used int) {
	w.t.Helper()
	c := w.client()
	now := time.Now().UnixMilli()
	for _, pool := range []string{"inuse", "notuse"} {
		w.write(c, path.Join(w.pool(pool), "x"), "")
		w.allow(c.Delete(path.Join(w.pool(pool), "x"), -1))
	}
	w.inBatches(c, model.SnowflakeWorkers+1, func(id int) any {
		name := "workId:" + strconv.Itoa(id)
		request := zk.CreateRequest{Path: path.Join(w.pool("notuse"), name), Data: []byte(theirNode(id, 0)), Acl: zk.WorldACL(zk.PermAll)}
		if id < used {
			request.Path, request.Data = path.Join(w.pool("inuse"), name), []byte(theirNode(id, now))
		}
		return &request
	})
}

// patient is an instance that leaves a lease that has run out alone for longer than any test takes.
func (w world) patient(workers int) instance {
	w.t.Helper()
	return w.open(zkstore.Options{Mode: zkstore.ModeRecycle, Workers: workers, ReclaimMargin: time.Hour})
}

// A worker ID that an instance of NotFound9's fork holds is not taken, one of its pool is,
// and leaves it.
func TestRecycleAdoptsTheirTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(model.SnowflakeWorkers - 2)
	c, s := w.client(), w.patient(model.SnowflakeWorkers)
	began := time.Now().UnixMilli()
	for i := range 2 {
		lease := workertest.Acquire(t, s, owner(i))
		if lease.WorkerID < model.SnowflakeWorkers-2 || lease.After < began-minute || lease.After > began+minute {
			t.Errorf("%+v", lease)
		}
	}
	if left := w.children(c, w.pool("notuse")); len(left) != 1 || left[0] != "workId:1024" {
		t.Errorf("their pool holds %v", left)
	}
	if _, err := s.Acquire(t.Context(), owner(2)); err == nil {
		t.Error("a worker ID in use was taken")
	}
	if again := workertest.Acquire(t, w.patient(model.SnowflakeWorkers), owner(0)); again.WorkerID < model.SnowflakeWorkers-2 {
		t.Errorf("%+v", again)
	}
}

// The reports of NotFound9's fork count when clocks are compared; its pool has none.
func TestRecyclePeersOfTheirs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(3)
	c := w.client()
	w.write(c, path.Join(w.pool("inuse"), "workId:1"), "rubbish")
	w.write(c, path.Join(w.pool("inuse"), "workId:2"), theirNode(2, 0)) // not reported yet
	peers, err := w.mode(zkstore.ModeRecycle).Peers(t.Context())
	if err != nil || len(peers) != 1 {
		t.Fatalf("%+v, %v", peers, err)
	}
	p := peers[0]
	if p.Address != "10.9.9.9:0" || p.WorkerID != 0 || p.Reported != p.Seen && time.Duration(p.Reported-p.Seen).Abs() > time.Duration(minute) {
		t.Errorf("%+v", p)
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

// The hour counts by the server's clock, and the bound by that of the holder.
func TestTheirHolder(t *testing.T) {
	t.Parallel()
	const written, trust = 1567733700834, hour + 10*second
	for name, c := range map[string]struct{ lastUsed, after int64 }{
		"a right clock":                {written, written + trust},
		"a clock an hour ahead":        {written + hour, written + hour + trust},
		"a clock an hour behind":       {written - hour, written + trust},
		"the time of the one before":   {written - 1000*hour, written + trust},
		"no report, never used before": {0, written + trust},
	} {
		after, until, err := zkstore.TheirHolder(theirNode(7, c.lastUsed), 7, written)
		if err != nil || after != c.after || until != written+trust {
			t.Errorf("%s: above %+d, free at %+d, %v", name, after-written, until-written, err)
		}
	}
	if _, _, err := zkstore.TheirHolder("", 7, written); err == nil {
		t.Error("an empty node has a time")
	}
}

// onlyTheirs is a world where worker ID 7 is in the pool of NotFound9's fork, and all others
// are held.
func onlyTheirs(t *testing.T, data string) (world, *zk.Conn, instance) {
	t.Helper()
	w, c, _ := alone(t, zkstore.ModeRecycle)
	s := w.patient(64) // reads that many
	w.fillRecycle(c, time.Now().UnixMilli()+hour)
	w.allow(c.Delete(path.Join(w.pool("inuse"), "7"), -1))
	w.write(c, path.Join(w.pool("notuse"), "workId:7"), data)
	return w, c, s
}

// A lease starts above the lastUsedTimestamp, and the hour that the holder may have gone on for.
func TestRecycleStartsAboveTheirTime(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMilli()
	for name, c := range map[string]struct {
		data     string
		lastUsed int64
	}{
		"an hour ahead":         {theirNode(7, now+hour), now + hour},
		"an hour ahead as text": {strings.Replace(theirNode(7, now+hour), fmt.Sprint(now+hour), fmt.Sprintf("%q", fmt.Sprint(now+hour)), 1), now + hour},
		"a minute ago":          {theirNode(7, now-minute), now - minute},
		"two hours ago":         {theirNode(7, now-2*hour), now - 2*hour},
		"all as text":           {`{"workId":"7","lastUsedIp":"10.9.9.9","lastUsedPort":"7","lastUsedTimestamp":"1567733700834"}`, 1567733700834},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, s := onlyTheirs(t, c.data)
			lease := workertest.Acquire(t, s, owner(0))
			if least := max(c.lastUsed+hour, now); lease.WorkerID != 7 || lease.After < least || lease.After > max(least, time.Now().UnixMilli())+minute {
				t.Errorf("worker ID %d above %+d ms, want 7 above %+d", lease.WorkerID, lease.After-now, least-now)
			}
			next := workertest.Renew(t, s, lease, lease.After+second, lease.After+second)
			check.Must(t, s.Release(t.Context(), next))
			if later := workertest.Acquire(t, s, owner(1)); later.WorkerID != 7 || later.After < next.Reserved {
				t.Errorf("%+v after %+v", later, next)
			}
		})
	}
}

// One whose time has passed is taken rather than one whose time has not.
func TestRecyclePrefersWhatHasPassed(t *testing.T) {
	w, c, s := onlyTheirs(t, theirNode(7, 0))
	for id := 8; id < 40; id++ {
		w.allow(c.Delete(path.Join(w.pool("inuse"), strconv.Itoa(id)), -1))
		w.write(c, path.Join(w.pool("notuse"), "workId:"+strconv.Itoa(id)), theirNode(id, time.Now().UnixMilli()+2*hour-int64(id)*minute))
	}
	for i, want := range []int{7, 39, 38} {
		if lease := workertest.Acquire(t, s, owner(i)); lease.WorkerID != want {
			t.Errorf("worker ID %d, want %d", lease.WorkerID, want)
		}
	}
}

// What does not say when the worker ID was used last is left alone.
func TestRecycleLeavesWhatIsNoRecordOfTheirs(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"nothing":             "",
		"malformed":           `{"workId":7,"lastUsedTimestamp":15677`,
		"no time":             `{"workId":7,"lastUsedIp":"10.9.9.9","lastUsedPort":"7"}`,
		"no worker ID":        `{"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":null}`,
		"another worker ID":   theirNode(8, 0),
		"Leaf's own":          `{"ip":"10.9.9.9","port":"7","timestamp":1567733700834}`,
		"a time that is text": `{"workId":7,"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":"yesterday"}`,
		"a time that is not":  `{"workId":7,"lastUsedIp":null,"lastUsedPort":null,"lastUsedTimestamp":1567733700834.5}`,
		"a time below 1970":   theirNode(7, -1),
		"a time of no clock":  theirNode(7, math.MaxInt64),
	} {
		t.Run(name, func(t *testing.T) {
			w, c, s := onlyTheirs(t, data)
			at := path.Join(w.pool("notuse"), "workId:7")
			lease, err := s.Acquire(t.Context(), owner(0))
			if !errors.Is(err, model.ErrNoWorkerID) || !strings.Contains(err.Error(), at) {
				t.Errorf("%+v, %v", lease, err)
			}
			w.write(c, path.Join(w.pool("notuse"), "workId:9"), theirNode(9, 0))
			w.allow(c.Delete(path.Join(w.pool("inuse"), "9"), -1))
			check.Equal(t, workertest.Acquire(t, s, owner(0)).WorkerID, 9, "beside it")
			check.Equal(t, w.read(c, at), data)
		})
	}
}

// An instance of NotFound9's fork removes the node from one pool before it makes it in the
// other: a worker ID in neither of them is not free.
func TestRecycleLeavesWhatTheirsMove(t *testing.T) {
	for name, before := range map[string]bool{"seen in no pool": true, "seen in the pool": false} {
		t.Run(name, func(t *testing.T) {
			w, c, s := onlyTheirs(t, theirNode(7, 0))
			w.write(c, path.Join(w.pool("notuse"), "workId:1024"), theirNode(1024, 0))
			move := sync.OnceFunc(func() { w.allow(c.Delete(path.Join(w.pool("notuse"), "workId:7"), -1)) })
			if before {
				move()
			}
			s.lose = func(_ int32, packet []byte) bool {
				if bytes.Contains(packet, []byte("inuse/7")) { // it reads the worker ID
					move()
				}
				return false
			}
			if lease, err := s.Acquire(t.Context(), owner(0)); !errors.Is(err, model.ErrNoWorkerID) {
				t.Errorf("%+v, %v", lease, err)
			}
			w.write(c, path.Join(w.pool("notuse"), "workId:7"), theirNode(7, 0))
			check.Equal(t, workertest.Acquire(t, s, owner(0)).WorkerID, 7, "once it is there")
		})
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
