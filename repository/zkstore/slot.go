package zkstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// The tree of NotFound9's fork of Leaf can be taken over once its instances have stopped. The fork
// has made a node for each worker ID, workId:N in one of the two pools, while our nodes are named by
// the number alone. A worker ID that the fork had in use is left alone for an hour after its last
// report. Whoever takes a worker ID removes the fork's node of it, and starts above the time that
// the node says. An instance of the fork that is started again refuses our nodes.

// forkPrefix begins the names that the fork gives to worker IDs.
const forkPrefix = "workId:"

// forkTrust is how long a report of the fork counts, in ms: an instance that cannot report stops
// after an hour, at its next try.
const forkTrust = int64(time.Hour/time.Millisecond) + leafTrust

// pools are the names in the two pools.
type pools struct {
	inuse, notuse [model.SnowflakeWorkers]bool
	// fork says that some are of the fork. It puts all worker IDs into its pools at the beginning,
	// and removes one from the first before it adds it to the second. So what is in neither is not
	// new: an instance of the fork was killed, or still runs.
	fork bool
	// foreign is why no worker ID may be taken anew: a name that is unknown may stand for a
	// worker ID in use.
	foreign error
}

// pools reads them.
func (r *recycle) pools(ctx context.Context) (p pools, err error) {
	for dir, has := range map[string]*[model.SnowflakeWorkers]bool{r.inuse: &p.inuse, r.notuse: &p.notuse} {
		names, err := r.children(ctx, dir)
		if err != nil {
			return p, err
		}
		for _, name := range names {
			digits := strings.TrimPrefix(name, forkPrefix)
			p.fork = p.fork || digits != name
			if id, ok := workerOf(digits); ok {
				has[id] = true
			} else if digits != strconv.Itoa(model.SnowflakeWorkers) { // one too many, which the fork's pool is made with
				p.foreign = &model.StoreError{
					Store: "zookeeper", Op: "read the worker IDs in " + dir,
					Err:    fmt.Errorf("the node %q %w", name, errForeign),
					Advice: "remove it if it stands for no worker ID in use, or choose another snowflake.name",
				}
			}
		}
	}
	return p, nil
}

// slot is a worker ID of ModeRecycle with the nodes that keep it, if any.
type slot struct {
	id                    int
	inuse, notuse         node // a record of ours; at most one of them is found
	forkInuse, forkNotuse node // the fork's, until the worker ID is taken
	held                  bool // who has it, or had it last, has not given it back
	rec                   record
}

// found says that the worker ID lies in a pool.
func (s slot) found() bool {
	return s.inuse.found || s.notuse.found || s.forkInuse.found || s.forkNotuse.found
}

// slotNodes is how many nodes may keep a worker ID.
const slotNodes = 4

// slotPaths are those nodes, in the order that slotOf takes them in.
func (r *recycle) slotPaths(ids ...int) (paths []string) {
	for _, id := range ids {
		fork := forkPrefix + strconv.Itoa(id)
		paths = append(paths, r.path(r.inuse, id), r.path(r.notuse, id), path.Join(r.inuse, fork), path.Join(r.notuse, fork))
	}
	return paths
}

// slot reads a worker ID.
func (r *recycle) slot(ctx context.Context, id int) (slot, error) {
	nodes, err := r.getAll(ctx, r.slotPaths(id))
	if err != nil {
		return slot{}, err
	}
	return slotOf(id, nodes)
}

// slots reads worker IDs, some at a time, as long as each wants more. Its error is that of a
// node that is no record.
func (r *recycle) slots(ctx context.Context, ids []int, each func(slot, error) (more bool)) error {
	for some := range slices.Chunk(ids, readers/slotNodes) {
		nodes, err := r.getAll(ctx, r.slotPaths(some...))
		if err != nil {
			return err
		}
		for i, id := range some {
			if !each(slotOf(id, nodes[i*slotNodes:])) {
				return nil
			}
		}
	}
	return nil
}

func slotOf(id int, nodes []node) (s slot, err error) {
	s = slot{id: id, inuse: nodes[0], notuse: nodes[1], forkInuse: nodes[2], forkNotuse: nodes[3]}
	s.held = s.inuse.found || s.forkInuse.found
	for _, n := range []node{s.notuse, s.inuse} {
		if n.found {
			if s.rec, err = decode[record](n); err != nil {
				return s, err
			}
		}
	}
	if s.forkNotuse.found {
		rep, err := decodeFork(s.forkNotuse, id)
		if err != nil {
			return s, err
		}
		// A holder that was gone before its first report left but the moment it was moved.
		s.rec.Reserved = max(s.rec.Reserved, rep.Timestamp+forkTrust, s.forkNotuse.stat.Mtime+leafTrust)
	}
	if s.forkInuse.found {
		rep, err := decodeFork(s.forkInuse, id)
		if err != nil {
			return s, err
		}
		// Until its first report a holder has that of the one before.
		rep.Timestamp = max(rep.Timestamp, s.forkInuse.stat.Mtime)
		s.rec = s.rec.ofLeaf(rep, s.forkInuse.stat.Mtime, forkTrust)
	}
	return s, nil
}

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

// moveTo are the changes that put data into our node of those in use, and remove the others, if the
// slot is still as it was read. That it is still in neither pool can only be tested by creating what
// must not be there.
func (s slot) moveTo(data []byte) []any {
	var changes []any
	for _, n := range []node{s.notuse, s.forkInuse, s.forkNotuse} {
		if n.found {
			changes = append(changes, n.remove())
		}
	}
	if !s.found() {
		changes = append(changes, create(s.notuse.path, nil, zk.FlagPersistent), &zk.DeleteRequest{Path: s.notuse.path, Version: -1})
	}
	return append(changes, s.inuse.put(data))
}
