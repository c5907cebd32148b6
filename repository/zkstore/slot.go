package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// pools are the names in the two pools.
type pools struct {
	inuse, notuse [model.SnowflakeWorkers]bool
	// old are the worker IDs with a record of ours in a pool.
	old []int
	// theirs says that some are of NotFound9's fork. It puts all worker IDs into its pools at
	// the beginning, and removes one from the first before it adds it to the second: what is
	// in neither is not new, but on its way.
	theirs bool
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
			digits := strings.TrimPrefix(name, theirs)
			p.theirs = p.theirs || digits != name
			if id, ok := workerOf(digits); ok {
				has[id] = true
				if digits == name {
					p.old = append(p.old, id)
				}
			} else if digits != strconv.Itoa(model.SnowflakeWorkers) { // one too many, which their pool is made with
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
	id            int
	inuse, notuse node // a record; at most one of them is found
	own           node // a record, where the pools are those of NotFound9's fork
	in, out       node // of the fork, in its pools
	held          bool // who has it, or had it last, has not given it back
	// reported is when the holder has last written the fork's node in use, by its own clock
	// or the servers', whichever is earlier.
	reported int64
	rec      record
}

// found says that the worker ID lies in a pool.
func (s slot) found() bool { return s.inuse.found || s.notuse.found || s.in.found || s.out.found }

// kept is where the record of a holder lies.
func (s slot) kept() node {
	if s.inuse.found {
		return s.inuse
	}
	return s.own
}

// silence is how long, in ms, a node of the fork may be without a report before its
// recycler could be about to move it: it deletes what lies there by then, whoever took it
// meanwhile. So a holder who finds it after so long issues nothing for leafTrust, and looks
// again first; scripts/prove/recycle.pml shows the rest.
const silence = 50 * 60 * 1000

func (s slot) silent(now int64) bool { return s.in.found && now-s.reported > silence }

// slotNodes is how many nodes may keep a worker ID.
const slotNodes = 5

// slotPaths are those nodes, in the order that slotOf takes them in.
func (r *recycle) slotPaths(ids ...int) (paths []string) {
	for _, id := range ids {
		name := theirs + strconv.Itoa(id)
		paths = append(paths, r.path(r.inuse, id), r.path(r.notuse, id), r.path(r.own, id), path.Join(r.inuse, name), path.Join(r.notuse, name))
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
	s = slot{id: id, inuse: nodes[0], notuse: nodes[1], own: nodes[2], in: nodes[3], out: nodes[4]}
	s.held = s.inuse.found
	for _, n := range []node{s.own, s.notuse, s.inuse} { // the last one found is the latest
		if !n.found {
			continue
		}
		rec, err := decode[record](n)
		if err != nil {
			return s, err
		}
		rec.Reserved, rec.Expires = max(rec.Reserved, s.rec.Reserved), max(rec.Expires, s.rec.Expires)
		s.rec = rec
	}
	if s.in.found {
		rep, err := decodeTheirs(s.in, id)
		if err != nil {
			return s, err
		}
		s.reported = min(rep.Timestamp, s.in.stat.Mtime)
	}
	if last := cmp.Or(s.in.stat.Mzxid, s.out.stat.Mzxid); last == 0 || s.own.found && s.own.stat.Mzxid == last {
		s.held = s.held || s.in.found && s.rec.Token != ""
		return s, nil // we wrote both in one transaction
	}
	s.held = s.held || s.in.found
	if !s.inuse.found { // the fork has moved it since, or has it
		s.rec.Token, s.rec.Acquired = "", 0
	}
	s.rec, err = s.rec.withTheirs(id, s.in, s.out)
	return s, err
}

// move are the changes that keep the record beside the fork's pools and put its node into
// one of them, if the slot is still as it was read; reported is the holder's clock.
func (s slot) move(rec record, inuse bool, reported int64) []any {
	changes := []any{s.own.put(encode(rec))} // its stat is the time of a renewal
	to, from := s.out, s.in
	if inuse {
		to, from = from, to
	}
	for _, n := range []node{s.inuse, s.notuse, from} {
		if n.found {
			changes = append(changes, n.remove())
		}
	}
	return append(changes, to.put(encode(endpointOf(s.id, rec, reported))))
}

// moveTo are the changes that put data into the pool of used worker IDs, in a tree that is
// ours alone, if the slot is still as it was read. That it is still in neither pool can only
// be tested by creating what must not be there.
func (s slot) moveTo(data []byte) []any {
	switch {
	case s.inuse.found:
		return []any{s.inuse.put(data)}
	case s.notuse.found:
		return []any{s.notuse.remove(), s.inuse.put(data)}
	default:
		return []any{create(s.notuse.path, nil, zk.FlagPersistent),
			&zk.DeleteRequest{Path: s.notuse.path, Version: -1}, s.inuse.put(data)}
	}
}

// adopt moves the records that an older shardid left in the fork's pools, where the fork
// cannot read them, except those of holders that live.
func (r *recycle) adopt(ctx context.Context, p pools, now int64) error {
	var found []slot
	err := r.slots(ctx, p.old, func(s slot, err error) bool {
		if err == nil && (!s.inuse.found || r.over(s.rec, now)) { // unread, it stays as it is
			found = append(found, s)
		}
		return true
	})
	for _, s := range found {
		s.rec.Token, s.rec.Acquired = "", 0
		if err == nil {
			err = r.multiIn(ctx, r.folders(), s.move(s.rec, s.rec.Expires > now, s.rec.Timestamp)...)
		}
	}
	return err
}
