//go:build unix

package zkstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
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

// theirClass is what NotFound9's fork reads a node into, with Jackson, which refuses any other field.
type theirClass struct {
	WorkID    *int    `json:"workId"`
	IP        *string `json:"lastUsedIp"`
	Port      *string `json:"lastUsedPort"`
	Timestamp *int64  `json:"lastUsedTimestamp"`
}

// readTheirs reads both pools as the fork does, and returns the worker IDs in them.
func (w world) readTheirs(c *zk.Conn) map[string][]int {
	w.t.Helper()
	found := map[string][]int{}
	for _, pool := range []string{"inuse", "notuse"} {
		for _, name := range w.children(c, w.pool(pool)) {
			data := w.read(c, path.Join(w.pool(pool), name))
			var node theirClass
			d := json.NewDecoder(strings.NewReader(data))
			d.DisallowUnknownFields()
			if err := d.Decode(&node); err != nil || node.WorkID == nil || name != fmt.Sprint("workId:", *node.WorkID) {
				w.t.Errorf("the fork cannot read %s/%s: %q, %v", pool, name, data, err)
				continue
			}
			if same, _ := json.Marshal(node); string(same) != data {
				w.t.Errorf("the fork writes %s, not %s", same, data)
			}
			found[pool] = append(found[pool], *node.WorkID)
		}
		slices.Sort(found[pool])
	}
	return found
}

// What we hold lies in the fork's pool of those in use, and what we gave back in the other, once
// its bounds have passed.
func TestTheirTreeStaysTheirs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(model.SnowflakeWorkers - 2)
	c, s := w.client(), w.mode(zkstore.ModeRecycle)
	lease := workertest.Acquire(t, s, owner(0))
	pools := w.readTheirs(c)
	check.Equal(t, len(pools["inuse"]), model.SnowflakeWorkers-1, "in use")
	if !slices.Contains(pools["inuse"], lease.WorkerID) || len(pools["notuse"]) != 2 {
		t.Errorf("%d is held, not in use are %v", lease.WorkerID, pools["notuse"])
	}
	for time.Now().UnixMilli() < lease.After+2*second { // the fork had it in hand, for all we know
		time.Sleep(100 * time.Millisecond)
	}
	now := time.Now().UnixMilli()
	lease = workertest.Renew(t, s, lease, now, now+2*hour)
	var node theirClass
	check.Must(t, json.Unmarshal([]byte(w.read(c, path.Join(w.pool("inuse"), fmt.Sprint("workId:", lease.WorkerID)))), &node))
	if *node.Timestamp < now+hour {
		t.Errorf("the fork may take it %d ms before the lease ends", now+2*hour-*node.Timestamp-hour)
	}
	lease.Reserved, lease.Expires = now-second, now+hour // the owner may come back without ZooKeeper
	check.Must(t, s.Release(t.Context(), lease))
	if pools = w.readTheirs(c); !slices.Contains(pools["inuse"], lease.WorkerID) {
		t.Errorf("%d may be taken by the fork before its bound: %v", lease.WorkerID, pools["notuse"])
	}
	again := workertest.Acquire(t, s, owner(0))
	check.Equal(t, again.WorkerID, lease.WorkerID)
	check.Equal(t, again.After, lease.Reserved)
	again.Expires = again.Reserved
	check.Must(t, s.Release(t.Context(), again))
	if pools = w.readTheirs(c); !slices.Contains(pools["notuse"], lease.WorkerID) {
		t.Errorf("%d was given back, not in use are %v", lease.WorkerID, pools["notuse"])
	}
	if last := workertest.Acquire(t, w.mode(zkstore.ModeRecycle), owner(0)); last.WorkerID != lease.WorkerID || last.After != again.Reserved {
		t.Errorf("%+v after %+v", last, again)
	}
}

// The records of an older shardid leave the fork's pools, with their bounds; one whose holder
// lives stays until it has gone.
func TestTheirTreeOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(model.SnowflakeWorkers - 3)
	c, s := w.client(), w.mode(zkstore.ModeRecycle)
	expires := time.Now().UnixMilli() - minute
	ids := []int{model.SnowflakeWorkers - 3, model.SnowflakeWorkers - 2, model.SnowflakeWorkers - 1}
	for i, id := range ids {
		w.allow(c.Delete(path.Join(w.pool("notuse"), "workId:"+strconv.Itoa(id)), -1))
		pool, until := "inuse", expires
		switch i {
		case 1:
			pool = "notuse"
		case 2:
			until += hour
		}
		w.write(c, path.Join(w.pool(pool), strconv.Itoa(id)), fmt.Sprintf(
			`{"ip":"10.1.1.1","port":"%d","timestamp":5,"identity":"old%d","token":"t","after":0,"reserved":7,"expires":%d}`, id, id, until))
	}
	lease := workertest.Acquire(t, s, owner(0))
	if !slices.Contains(ids[:2], lease.WorkerID) || lease.After != expires {
		t.Errorf("%+v", lease)
	}
	live := path.Join(w.pool("inuse"), strconv.Itoa(ids[2]))
	w.read(c, live)
	w.allow(c.Delete(live, -1))
	w.readTheirs(c)
	w.write(c, live, fmt.Sprintf(`{"ip":"10.1.1.1","port":"7","identity":"old","token":"t","reserved":%d,"expires":%d}`, expires, expires+hour))
	w.write(c, path.Join(w.pool("address"), "old"), strconv.Itoa(ids[2]))
	back := workertest.Acquire(t, s, model.Owner{Address: "10.1.1.1:7", Identity: "old", Token: "new"})
	if back.WorkerID != ids[2] || back.After != expires {
		t.Errorf("%+v", back)
	}
	w.readTheirs(c)
}

// The fork's recycler deletes what lies where it has seen an old node: who comes back to one
// issues nothing before it had the time to, and gives nothing back before that.
func TestTheirRecyclerMayCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillTheirs(model.SnowflakeWorkers - 1)
	c, s := w.client(), w.mode(zkstore.ModeRecycle)
	lease := workertest.Acquire(t, s, owner(0))
	lease = workertest.Renew(t, s, lease, lease.ServerTime-2*hour, lease.ServerTime-2*hour)
	in := path.Join(w.pool("inuse"), "workId:"+strconv.Itoa(lease.WorkerID))
	old := []any{&zk.SetDataRequest{Path: in, Data: []byte(theirNode(lease.WorkerID, lease.ServerTime-hour)), Version: -1},
		&zk.SetDataRequest{Path: lease.Node, Data: []byte(w.read(c, lease.Node)), Version: -1}}
	_, err := c.Multi(old...)
	w.allow(err)
	lease.Reported = time.Now().UnixMilli()
	check.Is(t, check.Err(s.Renew(t.Context(), lease)), model.ErrLeaseLost, "after an hour")
	next := workertest.Acquire(t, s, lease.Owner)
	if wait := next.After - next.ServerTime; next.WorkerID != lease.WorkerID || wait != 10*second {
		t.Errorf("worker ID %d, it waits %d ms", next.WorkerID, wait)
	}
	next.Expires = next.Reserved
	check.Must(t, s.Release(t.Context(), next))
	if pools := w.readTheirs(c); slices.Contains(pools["notuse"], lease.WorkerID) {
		t.Error("another instance of the fork may take it, and lose it to that recycler")
	}
	w.allow(c.Delete(in, -1))
	if _, err := s.Acquire(t.Context(), owner(1)); !errors.Is(err, model.ErrNoWorkerID) {
		t.Errorf("%v: it is in neither pool", err)
	}
	w.write(c, path.Join(w.pool("notuse"), path.Base(in)), theirNode(lease.WorkerID, lease.ServerTime-hour))
	got := workertest.Acquire(t, s, owner(1))
	if got.WorkerID != lease.WorkerID || got.After < lease.ServerTime+10*second {
		t.Errorf("%+v", got)
	}
	w.allow(c.Delete(in, -1)) // the recycler comes after all
	w.write(c, path.Join(w.pool("notuse"), path.Base(in)), theirNode(lease.WorkerID, lease.ServerTime))
	check.Is(t, check.Err(s.Renew(t.Context(), got)), model.ErrLeaseLost, "moved by the fork")
}

// holders says who holds which worker ID.
type holders struct {
	mu sync.Mutex
	by map[int]string
	n  int
}

func (h *holders) take(t *testing.T, id int, who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, held := h.by[id]; held {
		t.Errorf("%s has worker ID %d of %s", who, id, other)
	}
	h.by[id] = who
	h.n++
}

func (h *holders) leave(id int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.by, id)
}

// theirs is an instance of the fork: it takes a worker ID in two steps, and leaves it when it
// has reported an hour ago.
func (w world) theirs(c *zk.Conn, h *holders, who string) {
	names := w.children(c, w.pool("notuse"))
	if len(names) == 0 {
		return
	}
	name := names[rand.IntN(len(names))]
	id, _ := strconv.Atoi(strings.TrimPrefix(name, "workId:"))
	if c.Delete(path.Join(w.pool("notuse"), name), -1) != nil {
		return
	}
	in := path.Join(w.pool("inuse"), name)
	if _, err := c.Create(in, []byte(theirNode(id, time.Now().UnixMilli())), 0, zk.WorldACL(zk.PermAll)); err != nil {
		w.t.Error("the fork loses worker ID", id, err)
		return
	}
	h.take(w.t, id, who)
	h.leave(id)
	_, err := c.Set(in, []byte(theirNode(id, time.Now().UnixMilli()-2*hour)), -1)
	w.allow(err)
}

// recycleTheirs is one walk of the fork's recycler.
func (w world) recycleTheirs(c *zk.Conn) {
	for _, name := range w.children(c, w.pool("inuse")) {
		in := path.Join(w.pool("inuse"), name)
		data, _, err := c.Get(in)
		var node theirClass
		if err != nil || json.Unmarshal(data, &node) != nil || time.Now().UnixMilli()-*node.Timestamp < hour {
			continue
		}
		if c.Delete(in, -1) == nil {
			_, err := c.Create(path.Join(w.pool("notuse"), name), data, 0, zk.WorldACL(zk.PermAll))
			w.allow(err)
		}
	}
}

// Instances of the fork, its recycler and ours race for four worker IDs: nobody has one that
// another holds, and none is lost.
func TestRecycleRaceForTheirs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, h := w.client(), &holders{by: map[int]string{}}
	for id := range 4 {
		w.write(c, path.Join(w.pool("notuse"), "workId:"+strconv.Itoa(id)), theirNode(id, 0))
	}
	w.write(c, path.Join(w.pool("inuse"), "workId:1024"), theirNode(1024, time.Now().UnixMilli()))
	done := make(chan struct{})
	var racers, recycler sync.WaitGroup
	const rounds = 60
	for i := range 3 {
		fork := w.client()
		racers.Go(func() {
			for range rounds {
				w.theirs(fork, h, "the fork")
			}
		})
		s := w.open(zkstore.Options{Mode: zkstore.ModeRecycle, Workers: 4})
		racers.Go(func() {
			for n := range rounds {
				o := owner(i)
				o.Token = fmt.Sprint("t", i, "-", n)
				lease, err := s.Acquire(t.Context(), o)
				if errors.Is(err, model.ErrNoWorkerID) {
					continue
				}
				w.allow(err)
				h.take(t, lease.WorkerID, o.Token)
				lease.Expires = lease.Reserved
				h.leave(lease.WorkerID)
				w.allow(s.Release(t.Context(), lease))
			}
		})
	}
	recycling := w.client()
	recycler.Go(func() {
		for {
			w.recycleTheirs(recycling)
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	racers.Wait()
	close(done)
	recycler.Wait()
	pools := w.readTheirs(c)
	if all := len(pools["inuse"]) + len(pools["notuse"]); all != 5 {
		t.Errorf("%v, of 4 and the fork's own", pools)
	}
	t.Logf("%d holders", h.n)
}
