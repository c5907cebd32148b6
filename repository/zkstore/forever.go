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
)

// forever is ModeForever: an owner gets the number of a persistent sequential node, and
// keeps it: its folder, or without one its address, finds it again.
type forever struct {
	tree
	dir   string
	index string // followed by an identity
}

// ownChild is where our record lies, below a node that is Leaf's.
const ownChild = "shardid"

// sequenceDigits is how long the number is that ZooKeeper appends.
const sequenceDigits = 10

func newForever(t tree) *forever {
	return &forever{t, path.Join(t.root, "forever"), path.Join(t.lock, "of-")}
}

func (f *forever) acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now, err := f.touch(ctx, f.clock)
	if err != nil {
		return model.Lease{}, err
	}
	all, err := f.places(ctx)
	if err != nil {
		return model.Lease{}, err
	}
	m, err := f.identify(ctx, now, len(all) == 0)
	if err != nil {
		return model.Lease{}, err
	}
	h, err := f.choose(ctx, owner, all, m.now)
	if err != nil {
		return model.Lease{}, err
	}
	if h.rec.heldBy(owner) {
		return h.rec.lease(h.place.id, owner, h.path, m), nil
	}
	return f.claimNode(ctx, h, owner, m)
}

// choose picks the node that the owner has or had, at any address; else one of its
// address that has no live holder; else it makes one. An address from which Java Leaf
// reports is taken.
func (f *forever) choose(ctx context.Context, owner model.Owner, all []place, now int64) (held, error) {
	var here, foreign *held
	for _, p := range all {
		if p.address != owner.Address {
			continue
		}
		h, err := f.read(ctx, p)
		switch {
		case err != nil || !h.found:
			return h, cmp.Or(err, again(p.path))
		case h.rec.owned(owner):
			return h, nil
		case now >= h.rec.liveUntil():
			if here == nil {
				here = &h
			}
		case h.rec.leafUntil > 0:
			foreign = &h
		}
	}
	if foreign != nil {
		return held{}, &model.AddressTakenError{Address: owner.Address, WorkerID: foreign.place.id, Until: time.UnixMilli(foreign.rec.liveUntil())}
	}
	own, found, err := f.moved(ctx, owner)
	switch {
	case found || err != nil:
		return own, err
	case here != nil:
		return *here, nil
	}
	if err := f.make(ctx, owner, all); err != nil {
		return held{}, err
	}
	// Calls that race for one owner, or come after one whose answer was lost, agree on
	// the lowest node at the address that has no live holder.
	if all, err = f.places(ctx); err != nil {
		return held{}, err
	}
	return f.choose(ctx, owner, all, now)
}

// moved looks for the node that the owner had at another address.
func (f *forever) moved(ctx context.Context, owner model.Owner) (held, bool, error) {
	if owner.Identity == "" {
		return held{}, false, nil
	}
	index, err := f.get(ctx, f.index+owner.Identity)
	if err != nil || !index.found {
		return held{}, false, err
	}
	p, ok := f.parse(string(index.data))
	if !ok || p.address == owner.Address {
		return held{}, false, nil
	}
	h, err := f.read(ctx, p)
	return h, h.found && h.rec.owned(owner), err // else Java Leaf has it by now
}

// claimNode makes the owner the holder of a node, and his identity lead to it.
func (f *forever) claimNode(ctx context.Context, h held, owner model.Owner, m moment) (model.Lease, error) {
	next := h.rec.takenBy(owner, m.now)
	name := fmt.Sprintf("%s-%0*d", owner.Address, sequenceDigits, h.place.id)
	at := path.Join(f.dir, name)
	changes := []any{h.same(), h.child.put(encode(next))}
	if at != h.path {
		// It moves with its owner: a Java Leaf at the old address must not find it. Its
		// number is below those that ZooKeeper will append, so none appears twice.
		changes = []any{h.child.remove(), h.remove(),
			create(at, encode(next.report), zk.FlagPersistent), create(path.Join(at, ownChild), encode(next), zk.FlagPersistent)}
	}
	for _, identity := range slices.Compact([]string{owner.Identity, h.rec.Identity}) {
		if identity == "" {
			continue
		}
		index, err := f.get(ctx, f.index+identity)
		switch {
		case err != nil:
			return model.Lease{}, err
		case identity == owner.Identity && string(index.data) != name:
			changes = append(changes, index.put([]byte(name)))
		case identity != owner.Identity && string(index.data) == path.Base(h.path):
			changes = append(changes, index.remove())
		}
	}
	_, err := f.multi(ctx, changes...)
	return next.lease(h.place.id, owner, at, m), err
}

// renew finds out from the node itself whether Java Leaf has come to our address
// meanwhile: that knows nothing of our record.
func (f *forever) renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	h, err := f.mine(ctx, lease)
	if err != nil {
		return model.Lease{}, err
	}
	next := h.rec.renewed(lease)
	now, err := f.multi(ctx, h.put(encode(next.report)), h.child.put(encode(next)))
	return next.lease(lease.WorkerID, lease.Owner, lease.Node, moment{now, lease.KeptSince, lease.Registry}), err
}

func (f *forever) release(ctx context.Context, lease model.Lease) error {
	h, err := f.mine(ctx, lease)
	if err != nil {
		return err
	}
	_, err = f.multi(ctx, h.same(), h.child.put(encode(h.rec.released(lease))))
	return err
}

// held is Leaf's node with our record of it.
type held struct {
	node
	place place
	child node
	rec   record
}

// read reads both nodes. A node with neither report nor record was made by an
// instance of ours that got no further: it has no holder.
func (f *forever) read(ctx context.Context, p place) (held, error) {
	h := held{place: p}
	var err error
	if h.node, err = f.get(ctx, p.path); err != nil || !h.found {
		return h, err
	}
	rep, err := decode[report](h.node)
	if err != nil {
		return h, err
	}
	if h.child, err = f.get(ctx, path.Join(p.path, ownChild)); err != nil {
		return h, err
	}
	if h.child.found {
		if h.rec, err = decode[record](h.child); err != nil {
			return h, err
		}
	}
	if rep.Timestamp != h.rec.Timestamp { // not what we wrote, unless we did between the two readings
		latest, err := f.get(ctx, p.path)
		if err != nil {
			return h, err
		}
		if !latest.found || latest.stat.Version != h.stat.Version {
			return h, again(p.path)
		}
		h.rec = h.rec.ofLeaf(rep, h.stat.Mtime, leafTrust)
	}
	return h, nil
}

// mine reads the node of a lease. Errors: model.ErrLeaseLost.
func (f *forever) mine(ctx context.Context, lease model.Lease) (held, error) {
	if path.Dir(lease.Node) != f.dir {
		return held{}, lost(lease.Node, "is not a node below "+f.dir)
	}
	h, err := f.read(ctx, place{path: lease.Node})
	return h, cmp.Or(err, h.rec.lostFrom(lease.Owner, h.node))
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

// places lists the nodes that stand for worker IDs, lowest first. Higher numbers never
// were worker IDs, in Leaf neither.
func (f *forever) places(ctx context.Context) ([]place, error) {
	names, err := f.children(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	var all []place
	for _, name := range names {
		if p, ok := f.parse(name); ok && p.id < f.workers {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b place) int { return a.id - b.id })
	return all, nil
}

// make creates a node for the owner's address.
func (f *forever) make(ctx context.Context, owner model.Owner, all []place) error {
	if len(all) > 0 && all[len(all)-1].id == f.workers-1 {
		return f.errNumbers() // the next one would be higher still
	}
	rep, err := reportOf(owner)
	if err != nil {
		return err
	}
	at, err := f.add(ctx, path.Join(f.dir, owner.Address+"-"), encode(rep), zk.FlagSequence)
	if err != nil {
		return err
	}
	if p, _ := f.parse(path.Base(at)); p.id < f.workers {
		return nil
	}
	if err := f.delete(ctx, at); err != nil {
		return fmt.Errorf("%w (and %s could not be removed: %w)", f.errNumbers(), at, err)
	}
	return f.errNumbers()
}

// errNumbers: ZooKeeper counts on for ever.
func (f *forever) errNumbers() error {
	return fmt.Errorf("%w: ZooKeeper has numbered %d addresses, and a number is never used again, neither after its node was removed: "+
		"stop all instances and set snowflake.worker.mode to zk_recycle, or snowflake.name to a new name", model.ErrNoWorkerID, f.workers)
}
