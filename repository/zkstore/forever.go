package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// forever is ModeForever: an owner gets the number of a persistent sequential node, as in Leaf, and keeps
// it: its folder, or without one its address, finds it again. The node is Leaf's, and our record lies
// below it. A Java Leaf knows nothing of the record, so a node whose report is not that of the record is
// the Java Leaf's.
type forever struct {
	tree
	dir string
	all []place
}

const (
	// ownChild is where our record lies, below a node that is Leaf's.
	ownChild = "shardid"
	// sequenceDigits is how long the number is that ZooKeeper appends.
	sequenceDigits = 10
	// leafTrust is how long a report of Java Leaf counts, in ms. It reports every
	// 3 s, so one that lives is never so old, and one that is gone has issued
	// nothing later.
	leafTrust = int64(10 * time.Second / time.Millisecond)
)

func newForever(t tree) *forever { return &forever{tree: t, dir: path.Join(t.root, "forever")} }

// place is a node of Leaf's.
type place struct {
	path, address string
	id            int
}

// leafNode is Leaf's node, and the one below it.
type leafNode struct{ leaf, child node }

// list lists the nodes that stand for worker IDs, lowest first. Higher numbers never
// were worker IDs, in Leaf neither.
func (f *forever) list(ctx context.Context) (empty bool, err error) {
	names, err := f.children(ctx, f.dir)
	f.all = nil
	for _, name := range names {
		if p, ok := f.parse(name); ok && p.id < f.workers {
			f.all = append(f.all, p)
		}
	}
	slices.SortFunc(f.all, func(a, b place) int { return a.id - b.id })
	return len(f.all) == 0, err
}

// index leads from an identity; addresses are in the names of the nodes.
func (f *forever) index(o model.Owner) []string {
	if o.Identity == "" {
		return nil
	}
	return []string{path.Join(f.lock, "of-"+o.Identity)}
}

// known reads the nodes of the owner's address, and the one that its folder had at another. An address
// from which a Java Leaf reports is taken.
func (f *forever) known(ctx context.Context, c *choice) ([]workerid.Slot, error) {
	o := c.owner
	slots, err := f.here(ctx, o)
	if err != nil || slices.ContainsFunc(slots, func(s workerid.Slot) bool { return s.OwnedBy(o) }) {
		return slots, err
	}
	for _, s := range slots {
		if s.OthersUntil > c.Now {
			return nil, &model.AddressTakenError{Address: s.Address, WorkerID: s.ID,
				Until: time.UnixMilli(s.OthersUntil)}
		}
	}
	for _, n := range c.led {
		p, ok := f.parse(string(n.data))
		if !ok || p.address == o.Address {
			continue
		}
		moved, err := f.read(ctx, p, o.Address)
		switch {
		case err != nil:
			return nil, err
		case moved.Read != nil && moved.OwnedBy(o): // else a Java Leaf has it by now
			slots = append(slots, moved)
		}
	}
	return slots, nil
}

// here reads the nodes of the owner's address.
func (f *forever) here(ctx context.Context, o model.Owner) (slots []workerid.Slot, err error) {
	for _, p := range f.all {
		if p.address != o.Address {
			continue
		}
		slot, err := f.read(ctx, p, p.address)
		if err != nil || slot.Read == nil {
			return nil, cmp.Or(err, again(p.path))
		}
		slots = append(slots, slot)
	}
	return slots, nil
}

// others makes a node for the owner's address. Calls that race for one owner, or come after one whose
// answer was lost, agree on the lowest node at the address that has no live holder. When others took all
// of them meanwhile, it begins anew.
func (f *forever) others(ctx context.Context, c *choice) ([]workerid.Slot, error) {
	// ZooKeeper counts on for ever.
	full := fmt.Errorf("%w: ZooKeeper has numbered %d addresses, and a number is never used again, "+
		"neither after its node was removed: stop all instances and set snowflake.worker.mode to zk_recycle, "+
		"or snowflake.name to a new name", model.ErrNoWorkerID, f.workers)
	if len(f.all) > 0 && f.all[len(f.all)-1].id == f.workers-1 {
		return nil, full // the next one would be higher still
	}
	empty := encode(reportOf(workerid.Record{Address: c.owner.Address}))
	at, err := f.add(ctx, path.Join(f.dir, c.owner.Address+"-"), empty, zk.FlagSequence)
	if err != nil {
		return nil, err
	}
	if p, _ := f.parse(path.Base(at)); p.id >= f.workers {
		_, err := f.multi(ctx, nil, &zk.DeleteRequest{Path: at, Version: -1})
		return nil, cmp.Or(err, full)
	}
	if _, err := f.list(ctx); err != nil {
		return nil, err
	}
	slots, err := f.here(ctx, c.owner)
	if err == nil && !slices.ContainsFunc(slots, func(s workerid.Slot) bool { return s.LiveUntil() <= c.Now }) {
		err = again(at)
	}
	return slots, err
}

// put writes Leaf's node only with a report, as its time tells others how old that is.
func (f *forever) put(slot workerid.Slot, next workerid.Record) []any {
	read, record := slot.Read.(leafNode), encode(recordOf(next))
	switch {
	case slot.Path != read.leaf.path:
		// It moves with its owner: a Java Leaf at the old address must not find it. Its
		// number is below those that ZooKeeper will append, so none appears twice.
		return []any{read.child.remove(), read.leaf.remove(), create(slot.Path, encode(reportOf(next)),
			zk.FlagPersistent),
			create(path.Join(slot.Path, ownChild), record, zk.FlagPersistent)}
	case next.Reported != slot.Reported:
		return []any{read.leaf.put(encode(reportOf(next))), read.child.put(record)}
	}
	return []any{read.leaf.same(), read.child.put(record)}
}

// slot reads the node of a lease.
func (f *forever) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	p, _ := f.parse(nodeName(lease.Owner.Address, lease.WorkerID))
	return f.read(ctx, p, p.address)
}

// nodeName is what Leaf calls the node of a worker ID.
func nodeName(address string, id int) string {
	return fmt.Sprintf("%s-%0*d", address, sequenceDigits, id)
}

// read reads a worker ID, which is to be at an address from then on; Read is nil without a node. A node
// with neither report nor record was made by an instance of ours that got no further: it has no holder.
func (f *forever) read(ctx context.Context, p place, address string) (workerid.Slot, error) {
	slot := workerid.Slot{ID: p.id, Path: path.Join(f.dir, nodeName(address, p.id))}
	leaf, err := f.get(ctx, p.path)
	if err != nil || !leaf.found {
		return slot, err
	}
	rep, err := decode[report](leaf)
	if err != nil {
		return slot, err
	}
	child, err := f.get(ctx, path.Join(p.path, ownChild))
	if err != nil {
		return slot, err
	}
	if child.found {
		rec, err := decode[record](child)
		if err != nil {
			return slot, err
		}
		slot.Record = rec.record()
	}
	slot.Address, slot.Read = p.address, leafNode{leaf, child}
	if rep.Timestamp == slot.Reported {
		return slot, nil
	}
	// That is not what we wrote, unless we did between the two readings.
	latest, err := f.get(ctx, p.path)
	if err != nil || !latest.found || latest.stat.Version != leaf.stat.Version {
		return slot, cmp.Or(err, again(p.path))
	}
	slot.Record = slot.OfOthers(p.address, rep.Timestamp, leafTrust, leaf.stat.Mtime+leafTrust)
	return slot, nil
}

// parse reads the name of a node.
func (f *forever) parse(name string) (place, bool) {
	at := len(name) - sequenceDigits - 1
	if at < 1 || name[at] != '-' {
		return place{}, false
	}
	id, err := strconv.ParseUint(name[at+1:], 10, 31)
	return place{path: path.Join(f.dir, name), address: name[:at], id: int(id)}, err == nil
}

func (f *forever) reporting(ctx context.Context) (paths []string, ids []int, err error) {
	_, err = f.list(ctx)
	for _, p := range f.all {
		paths, ids = append(paths, p.path), append(ids, p.id)
	}
	return paths, ids, err
}

func (f *forever) folders() []string { return nil } // others has made the one there is
