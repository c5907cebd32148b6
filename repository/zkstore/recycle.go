package zkstore

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// recycle is ModeRecycle: worker IDs move between two pools, inuse and notuse. One that was never held is
// in neither, so that no pool has to be filled first.
//
// The tree of NotFound9's fork of Leaf can be taken over once its instances have stopped. The fork has
// made a node for each worker ID, workId:N in one of the two pools, while our nodes are named by the
// number alone. A worker ID that the fork had in use is left alone for an hour after its last report.
// Whoever takes a worker ID removes the fork's node of it, and starts above the time that the node says.
// An instance of the fork that is started again refuses our nodes.
type recycle struct {
	tree
	notuse string // the folder of those that nobody holds
}

const (
	// forkPrefix begins the names that the fork gives to worker IDs.
	forkPrefix = "workId:"
	// forkTrust is how long a report of the fork counts, in ms: an instance that cannot report stops
	// after an hour, at its next try.
	forkTrust = int64(time.Hour/time.Millisecond) + leafTrust
)

// forkReport is a report as a node of the fork has it. Its time is null, here 0, before the first one.
type forkReport struct {
	IP        string `json:"lastUsedIp"`
	Port      string `json:"lastUsedPort"`
	Timestamp int64  `json:"lastUsedTimestamp"`
}

// choices reads all. The fork puts all worker IDs into its pools at the beginning, and removes one from the first
// before it adds it to the second. So one that is in neither is not new there: an instance of the fork was killed, or
// still runs.
func (r recycle) choices(ctx context.Context, _ model.Owner, _ int64, _ int) (slots []workerid.Slot, err error) {
	var paths [model.SnowflakeWorkers][]string // of the nodes that keep each worker ID, ours before those of the fork
	fork := false
	for _, dir := range []string{r.notuse, r.holders} {
		names, err := r.children(ctx, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			digits := strings.TrimPrefix(name, forkPrefix)
			fork = fork || digits != name
			id, ok := numberOf(digits)
			switch {
			case !ok: // the fork's pool is made with one too many
			case digits == name:
				paths[id] = slices.Insert(paths[id], 0, path.Join(dir, name))
			default:
				paths[id] = append(paths[id], path.Join(dir, name))
			}
		}
	}
	nodes, err := r.getAll(ctx, slices.Concat(paths[:r.workers]...))
	if err != nil {
		return nil, err
	}
	for id := range r.workers {
		n := len(paths[id])
		if n == 0 && fork {
			continue
		}
		slot, err := r.slotOf(id, nodes[:n])
		if err != nil {
			return nil, err
		}
		slots, nodes = append(slots, slot), nodes[n:]
	}
	return slots, nil
}

// put moves a worker ID to the pool that its record belongs to, if it is still as it was read. That it is
// still in neither can only be tested by creating what must not be there.
func (r recycle) put(slot workerid.Slot, next workerid.Record) (changes []any) {
	target := node{path: path.Join(r.holders, strconv.Itoa(slot.ID))}
	left := path.Join(r.notuse, strconv.Itoa(slot.ID))
	if next.Token == "" {
		target.path = left
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
		changes = append(changes, create(left, nil, zk.FlagPersistent), &zk.DeleteRequest{Path: left, Version: -1})
	}
	return append(changes, target.put(encode(recordOf(own(next)))))
}

// slot reads the node of a lease.
func (r recycle) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	n, err := r.get(ctx, path.Join(r.holders, strconv.Itoa(lease.WorkerID)))
	if err != nil || !n.found {
		return workerid.Slot{}, err
	}
	return r.slotOf(lease.WorkerID, []node{n})
}

// slotOf is a worker ID with the nodes that keep it.
func (r recycle) slotOf(id int, nodes []node) (workerid.Slot, error) {
	slot := workerid.Slot{ID: id, Path: path.Join(r.holders, strconv.Itoa(id)), Read: nodes}
	for _, n := range nodes {
		if !n.found {
			return slot, again(n.path)
		}
		if !strings.HasPrefix(path.Base(n.path), forkPrefix) {
			rec, err := decode[record](n)
			if err != nil {
				return slot, err
			}
			slot.Record = rec.record()
			continue
		}
		forks, err := decode[forkReport](n)
		if err != nil {
			return slot, err
		}
		rep := report(forks)
		if path.Dir(n.path) == r.notuse {
			slot.Address = rep.address()
			// A holder that was gone before its first report left but the moment it was moved.
			slot.Reserved = max(slot.Reserved, rep.Timestamp+forkTrust, n.stat.Mtime+leafTrust)
			continue
		}
		// Until its first report a holder has that of the one before.
		reported := max(rep.Timestamp, n.stat.Mtime)
		slot.Record = slot.OfOthers(rep.address(), reported, forkTrust, n.stat.Mtime+forkTrust)
	}
	return slot, nil
}
