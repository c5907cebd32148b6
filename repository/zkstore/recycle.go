package zkstore

import (
	"cmp"
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

// recycle is ModeRecycle: worker IDs move between two pools. One that was
// never held is in neither, so that no pool has to be filled first.
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
// over restarts: the one of its folder, else the one of its address if that has no
// live holder.
func (r *recycle) acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now, err := r.touch(ctx, r.clock)
	if err != nil {
		return model.Lease{}, err
	}
	var keys []string // of the owner
	for _, key := range indexKeys(owner.Identity, owner.Address) {
		keys = append(keys, path.Join(r.index, key))
	}
	index, err := r.getAll(ctx, keys)
	if err != nil {
		return model.Lease{}, err
	}
	for _, n := range index {
		if !n.found {
			continue
		}
		id, err := strconv.Atoi(string(n.data))
		if err != nil || id < 0 || id >= model.SnowflakeWorkers {
			return model.Lease{}, fmt.Errorf("%s %w: %q", n.path, errForeign, n.data)
		}
		s, err := r.slot(ctx, id)
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

// takeAny takes a worker ID that was never held, else one that was given back, else
// one whose lease ran out longer than the margin ago. Each is picked at random: racers
// for the lowest would all but one start again.
func (r *recycle) takeAny(ctx context.Context, owner model.Owner, index []node, now int64) (model.Lease, error) {
	inuse, err := r.children(ctx, r.inuse)
	if err != nil {
		return model.Lease{}, err
	}
	notuse, err := r.children(ctx, r.notuse)
	if err != nil {
		return model.Lease{}, err
	}
	used, spare := numbers(inuse), numbers(notuse)
	var unheld, givenBack []int
	for id := range model.SnowflakeWorkers {
		switch {
		case used[id]:
		case spare[id]:
			givenBack = append(givenBack, id)
		default:
			unheld = append(unheld, id)
		}
	}
	m, err := r.identify(ctx, now, len(unheld) == model.SnowflakeWorkers)
	if err != nil {
		return model.Lease{}, err
	}
	free := unheld
	if len(free) == 0 {
		free = givenBack
	}
	if len(free) == 0 {
		if free, err = r.overdue(ctx, m.now); err != nil {
			return model.Lease{}, err
		}
	}
	if len(free) == 0 {
		return model.Lease{}, errAllHeld
	}
	s, err := r.slot(ctx, free[rand.IntN(len(free))])
	if err != nil {
		return model.Lease{}, err
	}
	if s.inuse.found && !r.over(s.rec, m.now) {
		return model.Lease{}, again(s.inuse.path)
	}
	return r.take(ctx, s, owner, index, m)
}

// overdue lists the worker IDs whose holders may lose them.
func (r *recycle) overdue(ctx context.Context, now int64) (ids []int, err error) {
	all := make([]string, model.SnowflakeWorkers)
	for id := range all {
		all[id] = r.path(r.inuse, id)
	}
	nodes, err := r.getAll(ctx, all)
	for id, n := range nodes {
		// A node that is no record is left alone: it does not say whether its holder lives.
		if rec, err := decode[record](n); n.found && err == nil && r.over(rec, now) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// over reports whether a holder may lose its worker ID to any other instance.
func (r *recycle) over(rec record, now int64) bool { return rec.liveUntil()+r.margin < now }

// errAllHeld: no lease has run out.
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
	var rec record
	if err == nil && n.found {
		rec, err = decode[record](n)
	}
	return n, rec, cmp.Or(err, rec.lostFrom(lease.Owner, n))
}

func (r *recycle) places(ctx context.Context) ([]place, error) { return r.numbered(ctx, r.inuse) }

func (r *recycle) folders() []string { return []string{r.inuse, r.notuse, r.index} }

func (r *recycle) path(pool string, id int) string { return path.Join(pool, strconv.Itoa(id)) }

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
