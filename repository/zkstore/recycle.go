package zkstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// recycle is ModeRecycle: worker IDs move between two pools, inuse and notuse. One that was never held is
// in neither, so that no pool has to be filled first. Nodes of an index, below address, lead from an
// identity and from an address to the worker ID that it has or had last.
//
// The tree of NotFound9's fork of Leaf can be taken over once its instances have stopped. The fork has
// made a node for each worker ID, workId:N in one of the two pools, while our nodes are named by the
// number alone. A worker ID that the fork had in use is left alone for an hour after its last report.
// Whoever takes a worker ID removes the fork's node of it, and starts above the time that the node says.
// An instance of the fork that is started again refuses our nodes.
type recycle struct {
	tree
	inuse, notuse string
	paths         [model.SnowflakeWorkers][]string // of the nodes that keep each worker ID
	// fork says that some are of the fork. It puts all worker IDs into its pools at the beginning,
	// and removes one from the first before it adds it to the second. So what is in neither is not
	// new: an instance of the fork was killed, or still runs.
	fork bool
	// foreign is why no worker ID may be taken anew: a name that is unknown may stand for a
	// worker ID in use.
	foreign error
}

const (
	// forkPrefix begins the names that the fork gives to worker IDs.
	forkPrefix = "workId:"
	// forkTrust is how long a report of the fork counts, in ms: an instance that cannot report stops
	// after an hour, at its next try.
	forkTrust = int64(time.Hour/time.Millisecond) + leafTrust
)

func newRecycle(t tree) *recycle {
	dir := path.Join(t.root, "recycle")
	return &recycle{tree: t, inuse: path.Join(dir, "inuse"), notuse: path.Join(dir, "notuse")}
}

func (r *recycle) list(ctx context.Context) (empty bool, err error) {
	empty = true
	for _, dir := range []string{r.notuse, r.inuse} {
		names, err := r.children(ctx, dir)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			digits := strings.TrimPrefix(name, forkPrefix)
			r.fork = r.fork || digits != name
			id, ok := workerOf(digits)
			switch {
			case ok:
				r.paths[id] = append(r.paths[id], path.Join(dir, name))
				empty = false
			case digits != strconv.Itoa(model.SnowflakeWorkers): // one too many, which the fork's pool is made with
				r.foreign = &model.StoreError{
					Store: "zookeeper", Op: "read the worker IDs in " + dir,
					Err:    fmt.Errorf("the node %q %w", name, errForeign),
					Advice: "remove it if it stands for no worker ID in use, or choose another snowflake.name",
				}
			}
		}
	}
	return empty, nil
}

func (r *recycle) index(o model.Owner) (paths []string) {
	for _, key := range []string{o.Identity, o.Address} {
		if key != "" {
			paths = append(paths, path.Join(r.root, "recycle", "address", key))
		}
	}
	return paths
}

func (r *recycle) known(ctx context.Context, c *choice) (slots []workerid.Slot, err error) {
	for _, n := range c.led {
		if !n.found {
			continue
		}
		id, ok := workerOf(string(n.data))
		if !ok || id >= r.workers {
			return nil, fmt.Errorf("%s %w: %q", n.path, errForeign, n.data)
		}
		nodes, err := r.getAll(ctx, r.paths[id])
		if err != nil {
			return nil, err
		}
		slot, err := r.slotOf(id, nodes)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	return slots, nil
}

// others gives those that were never held. Only without one it reads all others, but for those that are
// no record.
func (r *recycle) others(ctx context.Context, c *choice) (slots []workerid.Slot, err error) {
	if r.foreign != nil {
		return nil, r.foreign
	}
	var paths []string
	for id := range r.workers {
		if len(r.paths[id]) == 0 && !r.fork {
			slots = append(slots, workerid.Slot{ID: id, Path: r.path(r.inuse, id), Read: []node(nil)})
		}
		paths = append(paths, r.paths[id]...)
	}
	if len(slots) > 0 {
		return slots, nil
	}
	nodes, err := r.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	for id := range r.workers {
		n := len(r.paths[id])
		slot, err := r.slotOf(id, nodes[:n])
		nodes = nodes[n:]
		switch {
		case errors.Is(err, errForeign):
			c.unread = err
		case err == nil && n > 0:
			slots = append(slots, slot)
		}
	}
	return slots, nil
}

// put moves a worker ID to the pool that its record belongs to, if it is still as it was read. That it is
// still in neither can only be tested by creating what must not be there.
func (r *recycle) put(slot workerid.Slot, next workerid.Record) (changes []any) {
	target := node{path: r.path(r.inuse, slot.ID)}
	if next.Token == "" {
		target.path = r.path(r.notuse, slot.ID)
	}
	read := slot.Read.([]node)
	for _, n := range read {
		if n.path == target.path {
			target = n
		} else {
			changes = append(changes, n.remove())
		}
	}
	if len(read) == 0 {
		left := r.path(r.notuse, slot.ID)
		changes = append(changes, create(left, nil, zk.FlagPersistent), &zk.DeleteRequest{Path: left, Version: -1})
	}
	return append(changes, target.put(encode(recordOf(own(next)))))
}

// slot reads the node of a lease.
func (r *recycle) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	n, err := r.get(ctx, r.path(r.inuse, lease.WorkerID))
	if err != nil || !n.found {
		return workerid.Slot{}, err
	}
	return r.slotOf(lease.WorkerID, []node{n})
}

// slotOf is a worker ID with the nodes that keep it.
func (r *recycle) slotOf(id int, nodes []node) (workerid.Slot, error) {
	slot := workerid.Slot{ID: id, Path: r.path(r.inuse, id), Read: nodes}
	for _, n := range nodes {
		if !n.found {
			return slot, again(n.path)
		}
		if !isForks(n) {
			rec, err := decode[record](n)
			if err != nil {
				return slot, err
			}
			slot.Record = rec.record()
		}
	}
	for _, n := range nodes {
		if !isForks(n) {
			continue
		}
		rep, err := decodeFork(n, id)
		switch {
		case err != nil:
			return slot, err
		case path.Dir(n.path) == r.notuse:
			slot.Address = rep.address()
			// A holder that was gone before its first report left but the moment it was moved.
			slot.Reserved = max(slot.Reserved, rep.Timestamp+forkTrust, n.stat.Mtime+leafTrust)
		default:
			// Until its first report a holder has that of the one before.
			reported := max(rep.Timestamp, n.stat.Mtime)
			slot.Record = slot.OfOthers(rep.address(), reported, forkTrust, n.stat.Mtime+forkTrust)
		}
	}
	return slot, nil
}

// isForks says that a node was written by the fork.
func isForks(n node) bool { return strings.HasPrefix(path.Base(n.path), forkPrefix) }

// decodeFork reads a node of the fork. Its time is null, here 0, before the first report.
func decodeFork(n node, id int) (report, error) {
	var e struct {
		WorkerID  *int   `json:"workId"`
		IP        string `json:"lastUsedIp"`
		Port      string `json:"lastUsedPort"`
		Timestamp int64  `json:"lastUsedTimestamp"` // the holder's clock at its last report, Unix ms
	}
	err := json.Unmarshal(n.data, &e)
	switch {
	case err != nil:
	case e.WorkerID == nil || *e.WorkerID != id:
		err = fmt.Errorf("its workId is not %d", id)
	case e.Timestamp < 0 || e.Timestamp > math.MaxInt64/2:
		err = fmt.Errorf("its lastUsedTimestamp %d is no time", e.Timestamp)
	}
	if err != nil {
		return report{}, fmt.Errorf("%s %w: %w", n.path, errForeign, err)
	}
	return report{IP: e.IP, Port: e.Port, Timestamp: e.Timestamp}, nil
}

func (r *recycle) reporting(ctx context.Context) (paths []string, ids []int, err error) {
	return r.numbered(ctx, r.inuse)
}

// folders are those that take and release write in.
func (r *recycle) folders() []string {
	return []string{r.inuse, r.notuse, path.Join(r.root, "recycle", "address")}
}

func (r *recycle) path(pool string, id int) string { return path.Join(pool, strconv.Itoa(id)) }
