package worker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"time"

	"shardid/model"
	"shardid/repository/workerid"
)

// The stores of a world of snowflakes, and an instance's way to them.

var errSim = errors.New("simulated")

func away(op string) error { return &model.StoreError{Store: "sim", Op: op, Err: errSim} }

// simKind is how a registry gives worker IDs out.
type simKind int

const (
	fixed  simKind = iota // one for each owner for ever: zk
	pooled                // given to another once expired: mysql, zk_recycle
	leased                // held for a time, without a local file: zk_ephemeral
)

// simMargin is for how long a registry leaves a lease alone that has run out.
const simMargin = 5 * time.Second

// simRow is what a registry has of a worker ID.
type simRow struct {
	workerid.Record
	held int64 // until when the lease of a leased registry lasts
}

// simRegistry is a registry over a store that is a map. Its clock is true time.
type simRegistry struct {
	workerid.Registry
	w         *world
	identity  string
	kind      simKind
	inDB      bool           // it is a table of the database and shares its fate
	rows      map[int]simRow // by worker ID
	backup    map[int]simRow // what a restore brings back
	deposed   map[int]simRow // those of a leased registry's server that was replaced
	keptSince int64
	away      bool
}

func (r *simRegistry) moment() workerid.Moment {
	m := workerid.Moment{Now: r.w.now, KeptSince: r.keptSince, Registry: r.identity}
	if len(r.rows) == 0 {
		m.KeptSince = m.Now
	}
	return m
}

func (r *simRegistry) slot(id int) workerid.Slot {
	row := r.rows[id]
	return workerid.Slot{ID: id, Record: row.Record, Ended: r.kind == leased && row.held <= r.w.now}
}

func (r *simRegistry) store(id int, record workerid.Record) {
	r.rows[id] = simRow{record, r.w.now + simTTL.Milliseconds()}
}

// Take implements workerid.Store.
func (r *simRegistry) Take(_ context.Context, o model.Owner, take workerid.Take) error {
	choice := workerid.Choice{Moment: r.moment(), Among: 1}
	for id := range r.w.workers {
		s := r.slot(id)
		if r.kind == fixed && s.Record != (workerid.Record{}) && !s.OwnedBy(o) && s.Address != o.Address {
			continue
		}
		if r.w.mutant == addressBelieved && s.Address == o.Address {
			s.Identity = o.Identity
		}
		choice.Slots = append(choice.Slots, s)
	}
	slot, next, err := take(choice)
	if err == nil {
		r.store(slot.ID, next)
	}
	return err
}

// Edit implements workerid.Store.
func (r *simRegistry) Edit(_ context.Context, l model.Lease, edit workerid.Edit) (workerid.Moment, error) {
	m := r.moment()
	next, err := edit(r.slot(l.WorkerID))
	if err != nil {
		return m, err
	}
	if r.w.mutant == reportsInstead && next.Token != "" {
		next.Reserved = max(r.rows[l.WorkerID].Reserved, l.Reported)
	}
	r.store(l.WorkerID, next)
	return m, nil
}

// restore brings rows back: the registry went back in time. Leases of another history end at once.
func (r *simRegistry) restore(rows map[int]simRow) {
	r.rows, r.keptSince = map[int]simRow{}, r.w.now
	for id, row := range rows {
		r.rows[id] = simRow{Record: row.Record}
	}
}

// simDB is the database: the claims, and the tables of the registries in it.
type simDB struct {
	w        *world
	claims   map[string]model.WorkerClaim
	recorded int64 // when the layout was; 0: it is not
	since    int64 // when it noticed its server, or its life
	away     bool
	copies   []simCopy // what it was a moment ago, and longer ago
}

// simCopy is a copy of the database that lags, or a backup.
type simCopy struct {
	claims   map[string]model.WorkerClaim
	recorded int64
	rows     map[int]simRow
}

func (d *simDB) keep() {
	c := simCopy{claims: maps.Clone(d.claims), recorded: d.recorded}
	for _, r := range d.w.registries {
		if r.inDB {
			c.rows = maps.Clone(r.rows)
		}
	}
	d.copies = append(d.copies[max(0, len(d.copies)-100):], c)
}

// failOver replaces the database by a copy of a moment ago, of any time, or the oldest, which
// may lack all that was ever stored.
func (d *simDB) failOver() {
	all := len(d.copies)
	age := []int{1, min(2, all), 1 + d.w.rng.IntN(all), all}[d.w.rng.IntN(4)]
	c := d.copies[all-age]
	d.claims, d.recorded = maps.Clone(c.claims), c.recorded
	if d.w.mutant != serverIgnored {
		d.since = d.w.now
	}
	for _, r := range d.w.registries {
		if r.inDB {
			r.rows, r.keptSince = maps.Clone(c.rows), max(r.keptSince, d.since)
		}
	}
}

// layout is what sqlstore.LayoutOnce, HasLayout and LayoutAge do.
func (d *simDB) layout(record bool) (age time.Duration, recorded bool, err error) {
	if d.away {
		return 0, false, away("layout")
	}
	now := d.w.now
	if d.recorded == 0 && record {
		d.recorded = now
		d.w.recorded = cmp.Or(d.w.recorded, now)
	}
	from := d.recorded
	switch {
	case d.w.mutant == noVouch:
		from = now
	case d.since > simStart && d.w.mutant != recordBelieved:
		from = 0 // it may lack an earlier record
	}
	return time.Duration(now-from) * time.Millisecond, d.recorded != 0, nil
}

// claim is what sqlstore.ClaimWorker does.
func (d *simDB) claim(i *instance, c model.WorkerClaim) (grant model.ClaimGrant, err error) {
	d.w.interleave(i)
	if d.away {
		return grant, away("claim")
	}
	defer d.w.interleave(i)
	if d.w.mutant == noClaims {
		return model.ClaimGrant{Now: d.w.now, Kept: math.MaxInt64}, nil
	}
	now := d.w.now
	grant.Now = now
	own, open := d.claims[c.Token]
	if !c.First && (!open || own.Registry != c.Registry || d.since > simStart && own.Until <= d.since) {
		d.w.note("%s may not keep %q", i, c.Registry)
		return grant, model.ErrLeaseLost
	}
	if c.First {
		grant.Kept = time.Duration(now-d.since) * time.Millisecond
		for _, o := range d.claims {
			if o.Registry != c.Registry && o.Token != c.Token {
				grant.After = max(grant.After, o.Until)
			}
		}
		if grant.After > now {
			d.w.note("%s may not claim %q: another one until %d", i, c.Registry, grant.After-simStart)
			return grant, model.ErrRegistryInUse
		}
		for token, o := range d.claims {
			if o.Registry != c.Registry && o.Token != c.Token && d.w.mutant != claimsStayOpen {
				delete(d.claims, token)
				d.claims["closed "+token] = o
			}
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

func (l simLink) Acquire(ctx context.Context, o model.Owner) (lease model.Lease, err error) {
	err = l.call("acquire", func() (err error) { lease, err = l.Registry.Acquire(ctx, o); return err })
	if l.w.mutant == noDoubt {
		lease.KeptSince = 0
	}
	l.w.note("%s acquires: worker %d after %d, %v", l.inst, lease.WorkerID, lease.After-simStart, err)
	if l.w.mutant == leafFallback && err != nil && l.inst.disk.lease != nil {
		return *l.inst.disk.lease, nil // with no regard to what may have happened since
	}
	return lease, err
}

func (l simLink) Renew(ctx context.Context, want model.Lease) (got model.Lease, err error) {
	err = l.call("renew", func() (err error) {
		got, err = l.Registry.Renew(ctx, want)
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

func (l simLink) Release(ctx context.Context, lease model.Lease) error {
	return l.call("release", func() error { return l.Registry.Release(ctx, lease) })
}

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
		kept := *l
		kept.After = kept.Reserved
		return kept, true
	}
	return model.Lease{}, false
}

func (f simFile) Store(lease model.Lease) error {
	f.inst.w.interleave(f.inst)
	if f.inst.full || !f.inst.w.isHeard() && f.inst.w.rng.IntN(40) == 0 {
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
