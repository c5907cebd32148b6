package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"shardid/model"
)

var errSim = errors.New("simulated")

func away(op string) error { return &model.StoreError{Store: "sim", Op: op, Err: errSim} }

// simRow is what a registry keeps of one worker ID.
type simRow struct {
	address, identity, token string
	reserved, expires        int64
	leaseEnd                 int64 // server time; for registries whose leases end by themselves
}

// simRegistry is the shared state of a model registry. Its clock is true time.
type simRegistry struct {
	w         *world
	kind      simKind
	rows      map[int]simRow
	backup    map[int]simRow // what a restore brings back
	keptSince int64
	away      bool
}

// simKind is how a registry gives worker IDs out.
type simKind int

const (
	perAddress simKind = iota // one for each address for ever: zk, mysql
	pooled                    // given to another once expired: zk_recycle, mysql when full
	leased                    // held for a time, without a local file: redis, zk_ephemeral
)

const simWorkers = 2 // fewer than addresses, so that instances meet

func (r *simRegistry) acquire(o model.Owner) (model.Lease, error) {
	now := r.w.now
	lease := model.Lease{Owner: o, ServerTime: now, KeptSince: r.keptSince}
	if len(r.rows) == 0 {
		lease.KeptSince = now
	}
	for id, row := range r.rows {
		if r.mine(row, o) {
			return r.take(lease, id, row)
		}
	}
	for id := range simWorkers {
		row, used := r.rows[id]
		if !used || r.free(row) {
			row.address, row.identity = o.Address, ""
			if r.kind == leased {
				row.expires = row.reserved // nobody goes on without the registry
			}
			return r.take(lease, id, row)
		}
	}
	return model.Lease{}, model.ErrNoWorkerID
}

func (r *simRegistry) mine(row simRow, o model.Owner) bool {
	if r.kind == leased {
		return row.token == o.Token && row.leaseEnd > r.w.now
	}
	return row.address == o.Address
}

func (r *simRegistry) free(row simRow) bool {
	switch r.kind {
	case leased:
		return row.leaseEnd <= r.w.now
	case pooled:
		return row.expires+5000 < r.w.now
	default:
		return false
	}
}

// take gives a row to the lease's owner.
func (r *simRegistry) take(lease model.Lease, id int, row simRow) (model.Lease, error) {
	o := lease.Owner
	sameIdentity := row.identity != "" && row.identity == o.Identity
	switch {
	case row.token == o.Token:
	case r.kind != leased && !sameIdentity && r.w.now < row.expires:
		return model.Lease{}, &model.AddressTakenError{Address: o.Address, WorkerID: id}
	}
	lease.WorkerID, lease.After = id, row.expires
	if sameIdentity || row.token == o.Token {
		lease.After = row.reserved
	} else {
		row.reserved = row.expires // what is stored from here on is the new owner's
	}
	row.address, row.identity, row.token = o.Address, o.Identity, o.Token
	row.leaseEnd = r.w.now + simTTL.Milliseconds()
	r.rows[id] = row
	return lease, nil
}

func (r *simRegistry) renew(l model.Lease) (model.Lease, error) {
	row, ok := r.rows[l.WorkerID]
	if !ok || row.token != l.Owner.Token || r.kind == leased && row.leaseEnd <= r.w.now {
		return model.Lease{}, model.ErrLeaseLost
	}
	reserved := l.Reserved
	if r.w.mutant == reportsInstead {
		reserved = l.Reported
	}
	row.reserved, row.expires = max(row.reserved, reserved), max(row.expires, l.Expires)
	row.leaseEnd = r.w.now + simTTL.Milliseconds()
	r.rows[l.WorkerID] = row
	l.ServerTime, l.KeptSince = r.w.now, r.keptSince
	return l, nil
}

func (r *simRegistry) release(l model.Lease) error {
	row, ok := r.rows[l.WorkerID]
	if !ok || row.token != l.Owner.Token {
		return nil
	}
	row.token, row.reserved, row.expires, row.leaseEnd = "", l.Reserved, l.Expires, 0
	r.rows[l.WorkerID] = row
	return nil
}

// restore brings the backup back: the registry went back in time.
func (r *simRegistry) restore() {
	r.rows = maps.Clone(r.backup)
	r.keptSince = r.w.now
	for id, row := range r.rows {
		row.leaseEnd = 0 // leases of another history end at once
		r.rows[id] = row
	}
}

// simLink is one instance's way to the registry: it may be cut, and lose replies.
type simLink struct {
	*simRegistry
	inst *instance
}

func (l simLink) call(op string, do func() error) error {
	l.w.interleave(l.inst)
	if l.away || l.inst.cut {
		return away(op)
	}
	err := do()
	l.inst.heard = l.w.now
	l.w.interleave(l.inst)
	if l.w.mayLose() && l.w.rng.IntN(12) == 0 {
		l.w.note("lost reply")
		return away(op)
	}
	return err
}

func (l simLink) Acquire(_ context.Context, o model.Owner) (lease model.Lease, err error) {
	err = l.call("acquire", func() (err error) { lease, err = l.acquire(o); return err })
	l.w.note("%s acquires: worker %d after %d, %v", l.inst, lease.WorkerID, lease.After-simStart, err)
	if l.w.mutant == leafFallback && err != nil && l.inst.disk.lease != nil {
		return *l.inst.disk.lease, nil // with no regard to what may have happened since
	}
	return lease, err
}

func (l simLink) Renew(_ context.Context, want model.Lease) (got model.Lease, err error) {
	err = l.call("renew", func() (err error) {
		got, err = l.renew(want)
		l.w.note("%s renews worker %d up to %d: %v", l.inst, want.WorkerID, want.Reserved-simStart, err)
		if err == nil {
			l.inst.durable = max(l.inst.durable, want.Reserved)
		}
		return err
	})
	if l.w.mutant == trustsItself && isAway(err) {
		return want, nil // the lease is believed in until the registry denies it
	}
	if l.w.mutant == leafFallback && err != nil {
		return want, nil //nolint:nilerr // that is the mutant
	}
	return got, err
}

func (l simLink) Release(_ context.Context, lease model.Lease) error {
	return l.call("release", func() error { return l.release(lease) })
}

func (l simLink) Peers(context.Context) ([]model.WorkerPeer, error) { return nil, nil }

// simDisk is a data folder.
type simDisk struct {
	identity string
	lease    *model.Lease
}

// simFile is a data folder in use.
type simFile struct{ inst *instance }

func (f simFile) Identity() string { return f.inst.disk.identity }
func (f simFile) Close() error     { return nil }

func (f simFile) Load() (model.Lease, bool) {
	if l := f.inst.disk.lease; l != nil && l.Owner.Address == f.inst.address {
		return *l, true
	}
	return model.Lease{}, false
}

func (f simFile) Store(lease model.Lease) error {
	f.inst.w.interleave(f.inst)
	if f.inst.w.rng.IntN(40) == 0 {
		return errSim
	}
	if f.inst.w.mutant == reportsInstead {
		lease.Reserved = lease.Reported
	}
	f.inst.disk.lease = &lease
	f.inst.durable = max(f.inst.durable, lease.Reserved)
	f.inst.w.interleave(f.inst)
	return nil
}

// simGenerator passes the keeper's grants on, or a mutant's.
type simGenerator struct {
	Generator
	inst *instance
}

func (g simGenerator) Begin(worker int, after int64) {
	g.inst.term++
	if g.inst.w.mutant == noAfter {
		after = 0
	}
	g.inst.durable = 0
	g.Generator.Begin(worker, after)
}

func (g simGenerator) Extend(until int64, trust simDuration) {
	if g.inst.w.mutant == noBound {
		until, trust = math.MaxInt64, math.MaxInt64
	}
	g.Generator.Extend(until, trust)
}

func (i *instance) String() string {
	return fmt.Sprintf("%s/%s life %d term %d", i.address, i.disk.identity, i.life, i.term)
}
