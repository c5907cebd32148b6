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
// below it. A Java Leaf knows nothing of the record. So if the node is newer than the record, a Java Leaf
// has reported since: we write both at once, or the record alone.
type forever struct{ tree }

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

// leafNode is Leaf's node, and the one below it.
type leafNode struct{ leaf, child node }

// choices gives the worker IDs of the owner's address, and the one that its folder had at another, lowest first. An
// address from which a Java Leaf reports is taken. If nothing is left for the owner, it makes a node: calls that race
// for one owner, or come after one whose answer was lost, agree on the lowest that has no live holder. Numbers above
// the worker IDs never were any, in Leaf neither.
func (f forever) choices(ctx context.Context, o model.Owner, now int64, among int) (slots []workerid.Slot, err error) {
	names, err := f.children(ctx, f.holders)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		if id, ok := workerOfLeaf(name); ok && id < f.workers {
			paths = append(paths, path.Join(f.holders, name))
		}
	}
	leaves, err := f.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	for i, at := range paths {
		paths[i] = path.Join(at, ownChild)
	}
	children, err := f.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	var taken error
	usable := false
	for i, leaf := range leaves {
		here := addressOf(leaf.path) == o.Address
		s, err := f.slotOf(leaf, children[i], o.Address)
		switch {
		case !here && (err != nil || !s.OwnedBy(o)):
			continue
		case err != nil:
			return nil, err
		case here && s.OwnedBy(o):
			return []workerid.Slot{s}, nil
		case here && s.OthersUntil > now:
			taken = fmt.Errorf("%w: %w: another program has reported worker ID %d from %s and is believed to live "+
				"until %s", model.Do("stop the other program, or give this instance its own snowflake.advertise"),
				model.ErrAddressTaken, s.ID,
				s.Address, time.UnixMilli(s.OthersUntil).UTC().Format(time.RFC3339))
		}
		slots, usable = append(slots, s), usable || s.OwnedBy(o) || s.LiveUntil() <= now
	}
	if taken != nil || usable {
		slices.SortFunc(slots, func(a, b workerid.Slot) int { return a.ID - b.ID })
		return slots, taken
	}
	empty := encode(reportOf(workerid.Record{Address: o.Address}))
	at, err := f.add(ctx, path.Join(f.holders, o.Address+"-"), empty, zk.FlagSequence)
	if err != nil {
		return nil, err
	}
	if id, _ := workerOfLeaf(path.Base(at)); id >= f.workers { // ZooKeeper counts on for ever
		_, err := f.multi(ctx, &zk.DeleteRequest{Path: at, Version: -1})
		return nil, cmp.Or(err, fmt.Errorf("%w: %w: ZooKeeper has numbered %d addresses, and a number is never used "+
			"again, not even after its node was removed", model.Do("stop all instances and set snowflake.worker.mode "+
			"to zk_recycle, or snowflake.name to a new name"), model.ErrNoWorkerID, f.workers))
	}
	return f.choices(ctx, o, now, among)
}

// put writes Leaf's node only with a report, as its time tells others how old that is.
func (f forever) put(slot workerid.Slot, next workerid.Record) []any {
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

// slot reads the node of a lease. The slot is zero without one.
func (f forever) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	leaf, err := f.get(ctx, path.Join(f.holders, nodeName(lease.Owner.Address, lease.WorkerID)))
	if err != nil || !leaf.found {
		return workerid.Slot{}, err
	}
	child, err := f.get(ctx, path.Join(leaf.path, ownChild))
	if err != nil {
		return workerid.Slot{}, err
	}
	return f.slotOf(leaf, child, lease.Owner.Address)
}

// nodeName is what Leaf calls the node of a worker ID.
func nodeName(address string, id int) string {
	return fmt.Sprintf("%s-%0*d", address, sequenceDigits, id)
}

// addressOf is the address in a node's path, which is that of a worker ID.
func addressOf(at string) string {
	name := path.Base(at)
	return name[:len(name)-sequenceDigits-1]
}

// slotOf is a worker ID, which is to be at an address from then on. A node with neither report nor record was made by
// an instance of ours that got no further: it has no holder. The record was read last, so one that had become newer
// than the node as it was read is no other program's.
func (f forever) slotOf(leaf, child node, address string) (slot workerid.Slot, err error) {
	if !leaf.found {
		return slot, again(leaf.path)
	}
	rep, err := decode[report](leaf)
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
	slot.ID, _ = workerOfLeaf(path.Base(leaf.path))
	slot.Path, slot.Read = path.Join(f.holders, nodeName(address, slot.ID)), leafNode{leaf, child}
	slot.Address = addressOf(leaf.path)
	if leaf.stat.Mzxid > child.stat.Mzxid && (child.found || rep.Timestamp != 0) {
		slot.Record = slot.OfOthers(slot.Address, rep.Timestamp, leafTrust, leaf.stat.Mtime+leafTrust)
	}
	return slot, nil
}

// workerOfLeaf is the worker ID of a node of Leaf's, by its name; false for any other.
func workerOfLeaf(name string) (id int, ok bool) {
	at := len(name) - sequenceDigits - 1
	if at < 1 || name[at] != '-' {
		return 0, false
	}
	number, err := strconv.ParseUint(name[at+1:], 10, 31)
	return int(number), err == nil
}
