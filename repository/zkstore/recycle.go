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

// recycle is ModeRecycle: worker IDs move between two pools. One that was
// never held is in neither, so that no pool has to be filled first. See slot.go for the tree of
// NotFound9's fork of Leaf.
type recycle struct {
	tree
	inuse, notuse string
	index         string // by identity and by address
	margin        int64  // ms
}

func newRecycle(t tree, margin time.Duration) *recycle {
	dir := path.Join(t.root, "recycle")
	return &recycle{tree: t, inuse: path.Join(dir, "inuse"), notuse: path.Join(dir, "notuse"), index: path.Join(dir, "address"),
		margin: margin.Milliseconds()}
}

// acquire prefers the worker ID that the owner had last, so that instances keep theirs
// over restarts: the one of its folder, else the one of its address if that has no
// live holder.
func (r *recycle) acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	now, err := r.touch(ctx, r.clock)
	if err != nil {
		return model.Lease{}, err
	}
	p, err := r.pools(ctx)
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
		if err != nil || id < 0 || id >= r.workers {
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
		return r.takeSlot(ctx, s, owner, index, m)
	}
	return r.takeAny(ctx, owner, index, p, now)
}

// indexKeys are the names under which the worker ID of an owner is found again.
func indexKeys(identity, address string) []string {
	if identity == "" {
		return []string{address}
	}
	return []string{identity, address}
}

// takeAny takes a worker ID that was never held, else one that was given back, else
// one whose lease ran out longer than the margin ago.
func (r *recycle) takeAny(ctx context.Context, owner model.Owner, index []node, p pools, now int64) (model.Lease, error) {
	if p.foreign != nil {
		return model.Lease{}, p.foreign
	}
	var unheld, givenBack, held []int
	for id := range r.workers {
		switch {
		case p.inuse[id]:
			held = append(held, id)
		case p.notuse[id]:
			givenBack = append(givenBack, id)
		default:
			unheld = append(unheld, id)
		}
	}
	m, err := r.identify(ctx, now, len(unheld) == r.workers)
	if err != nil {
		return model.Lease{}, err
	}
	s, err := r.choose(ctx, owner, m.now, !p.fork, unheld, givenBack, held)
	if err != nil {
		return model.Lease{}, err
	}
	return r.takeSlot(ctx, s, owner, index, m)
}

// choose picks the first worker ID that has no live holder and may be used at once, else
// the one that may be used soonest. Each group is read in random order: racers for the
// lowest would all but one start again. One that has no node is free only if it mayBeNew.
func (r *recycle) choose(ctx context.Context, owner model.Owner, now int64, mayBeNew bool, groups ...[]int) (slot, error) {
	var ids []int
	for _, group := range groups {
		rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		ids = append(ids, group...)
	}
	var free, soonest *slot
	var unread error
	err := r.slots(ctx, ids, func(s slot, err error) bool {
		switch {
		case err != nil: // it does not say whether its holder lives, nor what was issued
			unread = err
		case s.held && !r.over(s.rec, now), !s.found() && !mayBeNew:
		case s.rec.after(owner) <= now:
			free = &s
		case soonest == nil || s.rec.after(owner) < soonest.rec.after(owner):
			soonest = &s
		}
		return free == nil
	})
	switch {
	case err != nil:
		return slot{}, err
	case free != nil:
		return *free, nil
	case soonest == nil:
		return slot{}, r.errNoneFree(unread)
	}
	return *soonest, nil
}

// over reports whether a holder may lose its worker ID to any other instance.
func (r *recycle) over(rec record, now int64) bool { return rec.liveUntil()+r.margin < now }

// errNoneFree: no lease has run out. unread is the error of a node that was left alone.
func (r *recycle) errNoneFree(unread error) error {
	err := fmt.Errorf("%w: all %d of them are held by instances that report: stop some, or give a part of them another snowflake.name "+
		"if their IDs may be equal to those of the others", model.ErrNoWorkerID, r.workers)
	if unread != nil {
		err = fmt.Errorf("%w; a node is left alone, remove it if it stands for no worker ID in use: %w", err, unread)
	}
	return err
}

// takeSlot makes the owner the holder of a slot, in one transaction with what leads to it,
// and no longer leads to the one that had the slot.
func (r *recycle) takeSlot(ctx context.Context, s slot, owner model.Owner, index []node, m moment) (model.Lease, error) {
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
	held, rec, err := r.held(ctx, lease)
	if err != nil {
		return model.Lease{}, err
	}
	next := rec.renewed(lease)
	now, err := r.multi(ctx, held.put(encode(next)))
	return next.lease(lease.WorkerID, lease.Owner, held.path, moment{now, lease.KeptSince, lease.Registry}), err
}

func (r *recycle) release(ctx context.Context, lease model.Lease) error {
	held, rec, err := r.held(ctx, lease)
	if err != nil {
		return err
	}
	given := create(r.path(r.notuse, lease.WorkerID), encode(rec.released(lease)), zk.FlagPersistent)
	return r.multiIn(ctx, r.folders(), held.remove(), given)
}

// held reads the record of a lease. Errors: model.ErrLeaseLost.
func (r *recycle) held(ctx context.Context, lease model.Lease) (n node, rec record, err error) {
	if n, err = r.get(ctx, r.path(r.inuse, lease.WorkerID)); err != nil {
		return n, rec, err
	}
	if n.found {
		if rec, err = decode[record](n); err != nil {
			return n, rec, err
		}
	}
	return n, rec, rec.lostFrom(lease.Owner, n)
}

func (r *recycle) places(ctx context.Context) ([]place, error) { return r.numbered(ctx, r.inuse) }

// folders are those that take and release write in.
func (r *recycle) folders() []string { return []string{r.inuse, r.notuse, r.index} }

func (r *recycle) path(pool string, id int) string { return path.Join(pool, strconv.Itoa(id)) }
