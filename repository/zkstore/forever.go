package zkstore

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// forever is ModeForever: an address gets the number of a persistent sequential
// node, and keeps it.
type forever struct {
	tree
	dir string
}

// ownChild is where our record lies, below a node that is Leaf's.
const ownChild = "shardid"

// sequenceDigits is how long the number is that ZooKeeper appends.
const sequenceDigits = 10

func newForever(t tree) *forever { return &forever{t, path.Join(t.root, "forever")} }

func (f *forever) acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now, err := f.touch(ctx, f.clock)
	if err != nil {
		return model.Lease{}, err
	}
	place, m, err := f.find(ctx, owner, now)
	if err != nil {
		return model.Lease{}, err
	}
	if place.id >= model.SnowflakeWorkers {
		return model.Lease{}, f.refuse(ctx, place)
	}
	return f.claim(ctx, place, owner, m)
}

// claim makes the owner the holder of its address' node.
func (f *forever) claim(ctx context.Context, p place, owner model.Owner, m moment) (model.Lease, error) {
	h, err := f.read(ctx, p.path)
	if err != nil {
		return model.Lease{}, err
	}
	if !h.found {
		return model.Lease{}, again(p.path)
	}
	if h.rec.heldBy(owner) {
		return h.rec.lease(p.id, owner, p.path, m), nil
	}
	if err := h.rec.check(owner, p.id, m.now); err != nil {
		return model.Lease{}, err
	}
	next := h.rec.takenBy(owner, m.now)
	_, err = f.multi(ctx, h.same(), h.child.put(encode(next)))
	return next.lease(p.id, owner, p.path, m), err
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
	return next.lease(lease.WorkerID, lease.Owner, lease.Node, moment{now, lease.KeptSince}), err
}

func (f *forever) release(ctx context.Context, lease model.Lease) error {
	h, err := f.mine(ctx, lease)
	if err != nil {
		return err
	}
	_, err = f.multi(ctx, h.same(), h.child.put(encode(h.rec.released(lease))))
	return err
}

func (f *forever) peers(ctx context.Context) ([]model.WorkerPeer, error) {
	names, err := f.children(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	var places []place
	var paths []string
	for _, name := range names {
		// Higher numbers never were worker IDs, in Leaf neither.
		if p, ok := f.parse(name); ok && p.id < model.SnowflakeWorkers {
			places, paths = append(places, p), append(paths, p.path)
		}
	}
	nodes, err := f.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	var found []model.WorkerPeer
	for i, n := range nodes {
		// Nobody compares clocks with what is no report.
		if rep, err := decode[report](n); err == nil && rep.Timestamp > 0 {
			peer := rep.peer(places[i].id, n.stat.Mtime)
			peer.Address = places[i].address
			found = append(found, peer)
		}
	}
	return found, nil
}

// held is Leaf's node with our record of it.
type held struct {
	node
	child node
	rec   record
}

// read reads both nodes. A node with neither report nor record was made by an
// instance of ours that got no further: it is nobody's.
func (f *forever) read(ctx context.Context, at string) (held, error) {
	var h held
	var err error
	if h.node, err = f.get(ctx, at); err != nil || !h.found {
		return h, err
	}
	rep, err := decode[report](h.node)
	if err != nil {
		return h, err
	}
	if h.child, err = f.get(ctx, path.Join(at, ownChild)); err != nil {
		return h, err
	}
	if h.child.found {
		if h.rec, err = decode[record](h.child); err != nil {
			return h, err
		}
	}
	if rep.Timestamp != h.rec.Timestamp {
		h.rec = h.rec.ofLeaf(rep, h.stat.Mtime) // not what we wrote
	}
	return h, nil
}

// mine reads the node of a lease. Errors: model.ErrLeaseLost.
func (f *forever) mine(ctx context.Context, lease model.Lease) (held, error) {
	if path.Dir(lease.Node) != f.dir {
		return held{}, lost(lease.Node, "is not a node below "+f.dir)
	}
	h, err := f.read(ctx, lease.Node)
	switch {
	case err != nil:
		return h, err
	case !h.found:
		return h, lost(lease.Node, "is gone")
	case !h.rec.heldBy(lease.Owner):
		return h, lost(lease.Node, "has another holder")
	default:
		return h, nil
	}
}

// place is a node by its name.
type place struct {
	path    string
	address string
	id      int
}

func (f *forever) parse(name string) (place, bool) {
	at := len(name) - sequenceDigits - 1
	if at < 1 || name[at] != '-' {
		return place{}, false
	}
	id, err := strconv.ParseUint(name[at+1:], 10, 31)
	return place{path.Join(f.dir, name), name[:at], int(id)}, err == nil
}

// find returns the place of the owner's address and makes one if there is none.
// Two first starts at one address, or one whose answer was lost, may make two:
// all use the lowest then and remove the others.
func (f *forever) find(ctx context.Context, owner model.Owner, now int64) (place, moment, error) {
	mine, all, err := f.placesOf(ctx, owner.Address)
	if err != nil {
		return place{}, moment{}, err
	}
	m, err := f.keptSince(ctx, now, len(all) == 0)
	if err != nil {
		return place{}, moment{}, err
	}
	if len(mine) == 0 {
		if mine, err = f.make(ctx, owner, all); err != nil {
			return place{}, moment{}, err
		}
	}
	return mine[0], m, f.sweep(ctx, mine[1:])
}

// placesOf lists the places of an address, lowest first, and of all.
func (f *forever) placesOf(ctx context.Context, address string) (mine, all []place, err error) {
	names, err := f.children(ctx, f.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		p, ok := f.parse(name)
		if !ok {
			continue
		}
		all = append(all, p)
		if p.address == address {
			mine = append(mine, p)
		}
	}
	slices.SortFunc(mine, func(a, b place) int { return a.id - b.id })
	return mine, all, nil
}

// make creates a node for the owner's address, and returns all there are then.
func (f *forever) make(ctx context.Context, owner model.Owner, all []place) ([]place, error) {
	if slices.ContainsFunc(all, func(p place) bool { return p.id >= model.SnowflakeWorkers-1 }) {
		return nil, errNumbers // the next one would be higher still
	}
	rep, err := reportOf(owner)
	if err != nil {
		return nil, err
	}
	at := path.Join(f.dir, owner.Address+"-")
	if _, err := f.add(ctx, at, encode(rep), zk.FlagSequence); err != nil {
		return nil, err
	}
	mine, _, err := f.placesOf(ctx, owner.Address)
	if err == nil && len(mine) == 0 {
		err = again(at)
	}
	return mine, err
}

// sweep removes those of the places that nobody has used.
func (f *forever) sweep(ctx context.Context, places []place) error {
	for _, p := range places {
		h, err := f.read(ctx, p.path)
		if err != nil {
			return err
		}
		if !h.found || h.child.found || h.rec.Timestamp != 0 {
			continue
		}
		if err := f.delete(ctx, p.path, h.stat.Version); err != nil && !isConflict(err) {
			return err
		}
	}
	return nil
}

// refuse removes a node whose number is too high to be a worker ID, unless it
// has been used, and says so.
func (f *forever) refuse(ctx context.Context, p place) error {
	if err := f.sweep(ctx, []place{p}); err != nil {
		return fmt.Errorf("%w (and %s could not be removed: %w)", errNumbers, p.path, err)
	}
	return errNumbers
}

// errNumbers: ZooKeeper counts on for ever.
var errNumbers = fmt.Errorf("%w: ZooKeeper has numbered %d addresses, and a number is never used again, neither after its node was removed: "+
	"set snowflake.worker.mode to zk_recycle, or snowflake.name to a new name", model.ErrNoWorkerID, model.SnowflakeWorkers)
