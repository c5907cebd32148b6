package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

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
	identity  string
	kind      simKind
	inDB      bool // it is a table of the database and shares its fate
	rows      map[int]simRow
	backup    map[int]simRow // what a restore brings back
	deposed   map[int]simRow // those of a leased registry's server that was replaced
	keptSince int64
	away      bool
}

// simKind is how a registry gives worker IDs out.
type simKind int

const (
	fixed  simKind = iota // one for each owner for ever: zk, mysql
	pooled                // given to another once expired: zk_recycle, mysql when full
	leased                // held for a time, without a local file: redis, zk_ephemeral
)

const simWorkers = 2 // fewer than instances, so that they meet

func (r *simRegistry) acquire(o model.Owner) (model.Lease, error) {
	now := r.w.now
	lease := model.Lease{Owner: o, Registry: r.identity, ServerTime: now, KeptSince: r.keptSince}
	if len(r.rows) == 0 {
		lease.KeptSince = now
	}
	for _, mine := range []func(simRow) bool{
		func(row simRow) bool { return r.holds(row, o) },
		func(row simRow) bool { return r.kind != leased && row.identity == o.Identity },
		func(row simRow) bool {
			return r.kind != leased && row.address == o.Address && (now >= row.expires || r.w.mutant == addressBelieved)
		},
	} {
		for id := range simWorkers {
			if row, used := r.rows[id]; used && mine(row) {
				return r.take(lease, id, row)
			}
		}
	}
	for id := range simWorkers {
		row, used := r.rows[id]
		if !used || r.free(row) {
			row.identity = ""
			if r.kind == leased {
				row.expires = row.reserved // nobody goes on without the registry
			}
			return r.take(lease, id, row)
		}
	}
	return model.Lease{}, model.ErrNoWorkerID
}

func (r *simRegistry) holds(row simRow, o model.Owner) bool {
	return row.token == o.Token && (r.kind != leased || row.leaseEnd > r.w.now)
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
	lease.WorkerID, lease.After = id, row.expires
	if row.identity != "" && row.identity == o.Identity || row.token == o.Token || r.w.mutant == addressBelieved {
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
	if !ok || !r.holds(row, l.Owner) || r.identity != l.Registry {
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

// restore brings rows back: the registry went back in time.
func (r *simRegistry) restore(rows map[int]simRow) {
	r.rows = maps.Clone(rows)
	r.keptSince = r.w.now
	for id, row := range r.rows {
		row.leaseEnd = 0 // leases of another history end at once
		r.rows[id] = row
	}
}

// simDB is the database: the claims, and the tables of the registries in it.
type simDB struct {
	w      *world
	claims map[string]model.WorkerClaim
	since  int64 // when it noticed its server, or its life
	away   bool
	copies []simCopy // what it was a moment ago, and longer ago
}

// simCopy is a copy of the database that lags, or a backup.
type simCopy struct {
	claims map[string]model.WorkerClaim
	rows   map[int]simRow
}

func (d *simDB) keep() {
	c := simCopy{claims: maps.Clone(d.claims)}
	for _, r := range d.w.registries {
		if r.inDB {
			c.rows = maps.Clone(r.rows)
		}
	}
	d.copies = append(d.copies[max(0, len(d.copies)-100):], c)
}

// failOver replaces the database by a copy, mostly one of a moment ago.
func (d *simDB) failOver() {
	age := 1 + d.w.rng.IntN(2)
	if d.w.rng.IntN(4) == 0 {
		age = 1 + d.w.rng.IntN(len(d.copies))
	}
	c := d.copies[max(0, len(d.copies)-age)]
	d.claims = maps.Clone(c.claims)
	if d.w.mutant != serverIgnored {
		d.since = d.w.now
	}
	for _, r := range d.w.registries {
		if r.inDB {
			r.rows, r.keptSince = maps.Clone(c.rows), max(r.keptSince, d.since)
		}
	}
}

// claim is what sqlstore.ClaimWorker does.
func (d *simDB) claim(i *instance, c model.WorkerClaim) (grant model.ClaimGrant, err error) {
	d.w.interleave(i)
	if d.away {
		return grant, away("claim")
	}
	defer d.w.interleave(i)
	if d.w.mutant == noClaims {
		return model.ClaimGrant{Kept: math.MaxInt64}, nil
	}
	own, now := d.claims[c.Token], d.w.now
	if own.Registry != c.Registry || own.Until <= now {
		grant.Kept = time.Duration(now-d.since) * time.Millisecond
		var other model.WorkerClaim
		for _, o := range d.claims {
			if o.Registry != c.Registry && o.Token != c.Token && o.Until > other.Until {
				other = o
			}
		}
		grant.After = other.Until
		switch {
		case c.Until <= now:
			return grant, nil
		case other.Until > now || other.Until > 0 && !c.Watched:
			d.w.note("%s may not claim %q: %q until %d", i, c.Registry, other.Registry, other.Until-simStart)
			return grant, &model.RegistryInUseError{Registry: other.Registry, Mine: c.Registry}
		}
	}
	d.claims[c.Token] = c
	d.w.note("%s claims worker %d of %q until %d", i, c.WorkerID, c.Registry, c.Until-simStart)
	if d.w.mayLose() && d.w.rng.IntN(12) == 0 {
		return grant, away("claim")
	}
	return grant, nil
}

// simLink is one instance's way to the registry: it may be cut, and lose replies.
type simLink struct {
	*simRegistry
	inst *instance
}

func (l simLink) call(op string, do func() error) error {
	l.w.interleave(l.inst)
	if l.away || l.inst.cut || l.inDB && l.w.db.away {
		return away(op)
	}
	if l.inst.stale && l.w.mutant != noWait {
		return away(op) // its replicas have left it, and confirm nothing
	}
	if l.inst.stale {
		l.rows, l.deposed = l.deposed, l.rows
		defer func() { l.rows, l.deposed = l.deposed, l.rows }()
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
	if l.w.mutant == noDoubt {
		lease.KeptSince = 0
	}
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
	if l := f.inst.disk.lease; l != nil && l.Registry[:4] == f.inst.registry().identity[:4] {
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
