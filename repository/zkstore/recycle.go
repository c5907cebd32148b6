package zkstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

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
	used, err := r.pool(r.inuse, inuse)
	if err != nil {
		return model.Lease{}, err
	}
	spare, err := r.pool(r.notuse, notuse)
	if err != nil {
		return model.Lease{}, err
	}
	var unheld, givenBack []int
	for id := range r.workers {
		switch {
		case used[id]:
		case spare[id]:
			givenBack = append(givenBack, id)
		default:
			unheld = append(unheld, id)
		}
	}
	m, err := r.identify(ctx, now, len(unheld) == r.workers)
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
		return model.Lease{}, r.errAllHeld()
	}
	s, err := r.slot(ctx, free[rand.IntN(len(free))])
	if err != nil {
		return model.Lease{}, err
	}
	if s.held && !r.over(s.rec, m.now) {
		return model.Lease{}, again(s.inuse.path)
	}
	return r.take(ctx, s, owner, index, m)
}

// overdue lists the worker IDs whose holders may lose them.
func (r *recycle) overdue(ctx context.Context, now int64) (ids []int, err error) {
	slots := make([]slot, r.workers)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for id := range slots {
		group.Go(func() (err error) {
			// A node that is no record is left alone: it does not say whether its holder lives.
			if slots[id], err = r.slot(ctx, id); errors.Is(err, errForeign) {
				slots[id], err = slot{}, nil
			}
			return err
		})
	}
	err = group.Wait()
	for id, s := range slots {
		if s.held && r.over(s.rec, now) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// over reports whether a holder may lose its worker ID to any other instance.
func (r *recycle) over(rec record, now int64) bool { return rec.liveUntil()+r.margin < now }

// errAllHeld: no lease has run out.
func (r *recycle) errAllHeld() error {
	return fmt.Errorf("%w: all %d of them are held by instances that report: stop some, or give a part of them another snowflake.name "+
		"if their IDs may be equal to those of the others", model.ErrNoWorkerID, r.workers)
}

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

func (r *recycle) places(ctx context.Context) ([]place, error) {
	all, err := r.numbered(ctx, r.inuse)
	if err != nil {
		return nil, err
	}
	names, err := r.children(ctx, r.inuse)
	for _, name := range names {
		if id, ok := workerOf(strings.TrimPrefix(name, theirs)); ok && strings.HasPrefix(name, theirs) {
			all = append(all, place{path: path.Join(r.inuse, name), id: id})
		}
	}
	return all, err
}

// theirs is what the names begin with that NotFound9's fork of Leaf gives to worker IDs;
// ours are the numbers alone. Its instances may share the tree while they are replaced:
// one that reports keeps its worker ID, and what we take leaves its pools.
const theirs = "workId:"

// theirExpiry is for how long an instance of NotFound9's fork may be silent, in ms, before
// its worker ID goes back to the pool.
const theirExpiry = int64(time.Hour / time.Millisecond)

// pool reads the names of a pool. One that is unknown may stand for a worker ID in use, so
// it stops the mode.
func (r *recycle) pool(dir string, names []string) (is [model.SnowflakeWorkers]bool, err error) {
	for _, name := range names {
		digits := strings.TrimPrefix(name, theirs)
		if id, ok := workerOf(digits); ok {
			is[id] = true
		} else if digits != strconv.Itoa(model.SnowflakeWorkers) { // one too many, which their pool is made with
			return is, &model.StoreError{
				Store: "zookeeper", Op: "read the worker IDs in " + dir,
				Err:    fmt.Errorf("the node %q %w", name, errForeign),
				Advice: "remove it if it stands for no worker ID in use, or choose another snowflake.name",
			}
		}
	}
	return is, nil
}

func (r *recycle) folders() []string { return []string{r.inuse, r.notuse, r.index} }

func (r *recycle) path(pool string, id int) string { return path.Join(pool, strconv.Itoa(id)) }

// slot is a worker ID of ModeRecycle with the nodes that keep it, if any.
type slot struct {
	id            int
	inuse, notuse node   // at most one of them is found
	theirs        []node // those found of NotFound9's fork
	held          bool   // it is in a pool of worker IDs in use
	rec           record
}

func (s slot) found() bool { return s.inuse.found || s.notuse.found || len(s.theirs) > 0 }

// slot reads a worker ID.
func (r *recycle) slot(ctx context.Context, id int) (s slot, err error) {
	name := strconv.Itoa(id)
	nodes, err := r.getAll(ctx, []string{
		r.path(r.inuse, id), r.path(r.notuse, id), path.Join(r.inuse, theirs+name), path.Join(r.notuse, theirs+name),
	})
	if err != nil {
		return s, err
	}
	s.id, s.inuse, s.notuse = id, nodes[0], nodes[1]
	s.held = s.inuse.found || nodes[2].found
	switch {
	case s.inuse.found:
		s.rec, err = decode[record](s.inuse)
	case s.notuse.found:
		s.rec, err = decode[record](s.notuse)
	}
	if nodes[2].found { // of theirs, who knows neither our leases nor our records
		s.rec.report, _ = decode[report](nodes[2]) // nothing is there before its first report
		s.rec.Identity, s.rec.Token = "", ""
		s.rec.Expires = max(s.rec.Expires, nodes[2].stat.Mtime+theirExpiry)
	}
	for _, n := range nodes[2:] {
		if n.found {
			s.theirs = append(s.theirs, n)
			rep, _ := decode[report](n)
			s.rec.Reserved = max(s.rec.Reserved, max(rep.Timestamp, n.stat.Mtime)+leafTrust)
		}
	}
	return s, err
}

// moveTo are the changes that put data into the pool of used worker IDs, if the
// slot is still as it was read. That it is still in neither pool can only be
// tested by creating what must not be there.
func (s slot) moveTo(data []byte) []any {
	var changes []any
	for _, n := range s.theirs {
		changes = append(changes, n.remove())
	}
	switch {
	case s.inuse.found:
		return append(changes, s.inuse.put(data))
	case s.notuse.found:
		return append(changes, s.notuse.remove(), s.inuse.put(data))
	case len(s.theirs) > 0:
		return append(changes, s.inuse.put(data))
	default:
		return []any{create(s.notuse.path, nil, zk.FlagPersistent),
			&zk.DeleteRequest{Path: s.notuse.path, Version: -1}, s.inuse.put(data)}
	}
}
