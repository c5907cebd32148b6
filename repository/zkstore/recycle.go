package zkstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// recycle is ModeRecycle: worker IDs move between two pools. One that nobody has
// ever held is in neither, so that no pool has to be filled first.
type recycle struct {
	tree
	inuse, notuse string
	index         string // by identity and by address
	margin        int64  // ms
}

func newRecycle(t tree, margin time.Duration) *recycle {
	dir := path.Join(t.root, "recycle")
	return &recycle{t, path.Join(dir, "inuse"), path.Join(dir, "notuse"), path.Join(dir, "address"), margin.Milliseconds()}
}

// acquire prefers the worker ID that the owner had last, so that instances keep theirs
// over restarts: the one of its folder, else the one of its address if nobody lives
// there.
func (r *recycle) acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now, err := r.touch(ctx, r.clock)
	if err != nil {
		return model.Lease{}, err
	}
	var index []node // of the owner
	for _, key := range indexKeys(owner.Identity, owner.Address) {
		n, err := r.get(ctx, path.Join(r.index, key))
		if err != nil {
			return model.Lease{}, err
		}
		index = append(index, n)
	}
	for _, n := range index {
		if !n.found {
			continue
		}
		s, err := r.slotOf(ctx, n)
		if err != nil {
			return model.Lease{}, err
		}
		if !s.found() || !s.rec.owned(owner) && (s.rec.address() != owner.Address || now < s.rec.liveUntil()) {
			continue
		}
		m, err := r.identify(ctx, now, false)
		if err != nil || s.rec.heldBy(owner) {
			return s.rec.lease(s.id, owner, s.inuse.path, m), err
		}
		return r.take(ctx, s, owner, index, m)
	}
	return r.takeAny(ctx, owner, index, now)
}

// indexKeys are the names under which the worker ID of an owner is found again.
func indexKeys(identity, address string) []string {
	if identity == "" {
		return []string{address}
	}
	return []string{identity, address}
}

// takeAny takes a worker ID that nobody ever held, else one that was given back,
// else one whose lease ran out. Each is picked at random: racers for the lowest
// would all but one start again.
func (r *recycle) takeAny(ctx context.Context, owner model.Owner, index []node, now int64) (model.Lease, error) {
	p, err := r.pools(ctx)
	if err != nil {
		return model.Lease{}, err
	}
	m, err := r.identify(ctx, now, len(p.unheld) == model.SnowflakeWorkers)
	if err != nil {
		return model.Lease{}, err
	}
	free := p.unheld
	if len(free) == 0 {
		free = p.givenBack
	}
	if len(free) == 0 {
		return r.reclaim(ctx, owner, index, m)
	}
	s, err := r.slot(ctx, pick(free))
	if err != nil {
		return model.Lease{}, err
	}
	if s.inuse.found {
		return model.Lease{}, again(s.inuse.path)
	}
	return r.take(ctx, s, owner, index, m)
}

// reclaim takes the worker ID of a holder whose lease ran out a while ago.
func (r *recycle) reclaim(ctx context.Context, owner model.Owner, index []node, m moment) (model.Lease, error) {
	all := make([]string, model.SnowflakeWorkers)
	for id := range all {
		all[id] = r.path(r.inuse, id)
	}
	nodes, err := r.getAll(ctx, all)
	if err != nil {
		return model.Lease{}, err
	}
	var over []int
	for id, n := range nodes {
		// A node that is no record is left alone: nobody can say whether it lives.
		if rec, err := decode[record](n); n.found && err == nil && r.over(rec, m.now) {
			over = append(over, id)
		}
	}
	if len(over) == 0 {
		return model.Lease{}, errAllHeld
	}
	s, err := r.slot(ctx, pick(over))
	if err != nil {
		return model.Lease{}, err
	}
	if !s.inuse.found || !r.over(s.rec, m.now) {
		return model.Lease{}, again(s.inuse.path)
	}
	return r.take(ctx, s, owner, index, m)
}

// over reports whether a holder may lose its worker ID to anybody.
func (r *recycle) over(rec record, now int64) bool { return rec.liveUntil()+r.margin < now }

// errAllHeld: nobody's lease has run out.
var errAllHeld = fmt.Errorf("%w: all %d of them are held by instances that report: stop some, or give a part of them another snowflake.name "+
	"if their IDs may be equal to those of the others", model.ErrNoWorkerID, model.SnowflakeWorkers)

// take makes the owner the holder of a slot, in one transaction with what leads to it,
// and no longer leads to the one that had the slot.
func (r *recycle) take(ctx context.Context, s slot, owner model.Owner, index []node, m moment) (model.Lease, error) {
	next := s.rec.takenBy(owner, m.now)
	next.Timestamp = 0 // that of another instance, or of another life
	id := strconv.Itoa(s.id)
	changes := s.moveTo(encode(next))
	for _, n := range index {
		changes = append(changes, n.put([]byte(id)))
	}
	for _, key := range indexKeys(s.rec.Identity, s.rec.address()) {
		if !s.found() || slices.Contains(indexKeys(owner.Identity, owner.Address), key) {
			continue
		}
		before, err := r.get(ctx, path.Join(r.index, key))
		if err != nil {
			return model.Lease{}, err
		}
		if before.found && string(before.data) == id {
			changes = append(changes, before.remove())
		}
	}
	err := r.multiIn(ctx, r.folders(), changes...)
	return next.lease(s.id, owner, s.inuse.path, m), err
}

func (r *recycle) renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	n, rec, err := r.mine(ctx, lease)
	if err != nil {
		return model.Lease{}, err
	}
	next := rec.renewed(lease)
	now, err := r.multi(ctx, n.put(encode(next)))
	return next.lease(lease.WorkerID, lease.Owner, n.path, moment{now, lease.KeptSince, lease.Registry}), err
}

func (r *recycle) release(ctx context.Context, lease model.Lease) error {
	n, rec, err := r.mine(ctx, lease)
	if err != nil {
		return err
	}
	notuse := create(r.path(r.notuse, lease.WorkerID), encode(rec.released(lease)), zk.FlagPersistent)
	return r.multiIn(ctx, r.folders(), n.remove(), notuse)
}

// mine reads the node of a lease. Errors: model.ErrLeaseLost.
func (r *recycle) mine(ctx context.Context, lease model.Lease) (node, record, error) {
	n, err := r.get(ctx, r.path(r.inuse, lease.WorkerID))
	if err != nil {
		return n, record{}, err
	}
	if !n.found {
		return n, record{}, lost(n.path, "is gone")
	}
	rec, err := decode[record](n)
	if err == nil && !rec.heldBy(lease.Owner) {
		err = lost(n.path, "has another holder")
	}
	return n, rec, err
}

func (r *recycle) peers(ctx context.Context) ([]model.WorkerPeer, error) {
	names, err := r.children(ctx, r.inuse)
	if err != nil {
		return nil, err
	}
	return r.reports(ctx, r.inuse, names)
}

func (r *recycle) folders() []string { return []string{r.inuse, r.notuse, r.index} }

func (r *recycle) path(pool string, id int) string { return path.Join(pool, strconv.Itoa(id)) }

func pick(ids []int) int { return ids[rand.IntN(len(ids))] }

// slot is a worker ID of ModeRecycle with the node that keeps it, if any.
type slot struct {
	id            int
	inuse, notuse node // at most one of them is found
	rec           record
}

func (s slot) found() bool { return s.inuse.found || s.notuse.found }

// slot reads a worker ID.
func (r *recycle) slot(ctx context.Context, id int) (s slot, err error) {
	s.id, s.notuse.path = id, r.path(r.notuse, id)
	if s.inuse, err = r.get(ctx, r.path(r.inuse, id)); err != nil {
		return s, err
	}
	if !s.inuse.found {
		if s.notuse, err = r.get(ctx, s.notuse.path); err != nil {
			return s, err
		}
	}
	switch {
	case s.inuse.found:
		s.rec, err = decode[record](s.inuse)
	case s.notuse.found:
		s.rec, err = decode[record](s.notuse)
	}
	return s, err
}

// slotOf reads the worker ID that a node of the index names.
func (r *recycle) slotOf(ctx context.Context, index node) (slot, error) {
	id, err := strconv.Atoi(string(index.data))
	if err != nil || id < 0 || id >= model.SnowflakeWorkers {
		return slot{}, fmt.Errorf("%s %w: %q", index.path, errForeign, index.data)
	}
	return r.slot(ctx, id)
}

// moveTo are the changes that put data into the pool of used worker IDs, if the
// slot is still as it was read. That it is still in neither pool can only be
// tested by creating what must not be there.
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

// pools says what is not in use.
type pools struct {
	unheld    []int // never held
	givenBack []int
}

// pools lists both.
func (r *recycle) pools(ctx context.Context) (p pools, err error) {
	var inuse, notuse []string
	if inuse, err = r.children(ctx, r.inuse); err != nil {
		return p, err
	}
	if notuse, err = r.children(ctx, r.notuse); err != nil {
		return p, err
	}
	used, spare := numbers(inuse), numbers(notuse)
	for id := range model.SnowflakeWorkers {
		switch {
		case used[id]:
		case spare[id]:
			p.givenBack = append(p.givenBack, id)
		default:
			p.unheld = append(p.unheld, id)
		}
	}
	return p, nil
}

// numbers says which worker IDs are among the names.
func numbers(names []string) (is [model.SnowflakeWorkers]bool) {
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil && id >= 0 && id < len(is) && strconv.Itoa(id) == name {
			is[id] = true
		}
	}
	return is
}
