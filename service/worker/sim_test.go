package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
	"shardid/service/snowflake"
	"shardid/service/uid"
)

// simulation has a mutant for each guard: left out, it must let an ID repeat in some world.
func simulation() simtest.Simulation[mutant] {
	return simtest.Simulation[mutant]{
		Worlds: 10_000, Racing: 100, Seeds: 30_000,
		Least: map[string]float64{"IDs": 100, "UIDs": 1000, "worker IDs of UIDs used again": 0.25},
		Mutants: map[mutant]uint64{
			noBound:         1,
			noAfter:         18,
			reportsInstead:  132,
			trustsItself:    3557,
			leafFallback:    146,
			noVouch:         81,
			serverIgnored:   279,
			recordBelieved:  709,
			noDoubt:         81,
			noClaims:        26,
			noWait:          27,
			addressBelieved: 14,
			noMark:          5,
			recycleUnmarked: 495,
			recycleTooEarly: 5,
			numberAgain:     70,
		},
		World: func(t *testing.T, seed uint64, m mutant) (tally simtest.Tally, err error) {
			t.Helper()
			synctest.Test(t, func(*testing.T) { tally, err = newWorld(seed, m).run() })
			return tally, err
		},
	}
}

func TestSimulation(t *testing.T) { simulation().Run(t) }
func TestSimulationCatchesMutants(t *testing.T) {
	check.Deep(t)
	simulation().Catches(t)
}

type simDuration = time.Duration

const (
	simTTL   = 10 * time.Second
	simStart = int64(1_800_000_000_000) // Unix ms
	simSteps = 400
)

// mutant is a guard that is left out.
type mutant string

const (
	noMutant       mutant = ""
	noBound        mutant = "no bound: the generator goes on as long as it likes"
	noAfter        mutant = "no start bound: a term begins wherever the clock is"
	reportsInstead mutant = "report instead of reservation: what is stored is the time of the report"
	trustsItself   mutant = "trust until the server says so: a renewal without an answer counts"
	leafFallback   mutant = "Leaf's fallback: after any failure the worker ID of the file, without bounds"
	noVouch        mutant = "a registry that lost its state is believed"

	serverIgnored   mutant = "nobody notices that another server of the database answers"
	recordBelieved  mutant = "a database that is a copy has the first record of a layout"
	noDoubt         mutant = "what a registry has forgotten is not waited for"
	noClaims        mutant = "nobody claims what a registry's lease is used for"
	noWait          mutant = "no WAIT: a deposed server of the registry gives leases"
	addressBelieved mutant = "whoever comes from an address is the one that came from it before"
)

// instance is one process with its clock, its data folder and its network.
type instance struct {
	w       *world
	address string
	disk    simDisk
	offset  int64 // of its clock, ms
	config  int   // which registry it asks
	cut     bool  // from the registry
	stale   bool  // it talks to the registry's server that was replaced
	life    int   // 0 while it is down
	born    int64 // true time of its start
	heard   int64 // true time of the registry's last answer
	term    int
	durable int64 // highest reservation stored for the present term
	keeper  *Keeper
	gen     *idgen.Generator
	due     int64 // true time of its next step

	uids    *uid.Service // in place of gen, in a world of UIDs
	uidMode string
	lastUID int64 // of this life
}

func (i *instance) registry() *simRegistry { return i.w.registries[i.config] }

func (i *instance) clock() (int64, time.Duration) {
	return (i.w.now + i.offset) * int64(time.Millisecond), time.Duration(i.w.now-simStart) * time.Millisecond
}

// span is the times of the IDs that one term of a worker ID has issued.
type span struct {
	term     string
	from, to int64
}

// world is two registries, a database and the instances, driven by one seed; or the table of UIDs' worker IDs
// and its instances.
type world struct {
	rng        *rand.Rand
	mutant     mutant
	layout     model.SnowflakeLayout
	now        int64 // true time, Unix ms
	registries []*simRegistry
	config     int // the registry of the instances that start from now on
	db         *simDB
	nodes      *simNodes // nil but in a world of UIDs
	instances  []*instance
	moves      bool  // to the other registry and back, in rolling changes
	restores   bool  // registries and the database may go back in time
	recorded   int64 // when the layout was at first, true time
	lives      int
	inside     bool // interleave is under way
	calm       bool // no fault happens any more

	issued int
	owned  map[int64][]span // by worker ID
	faults []string
	failed error
}

func newWorld(seed uint64, m mutant) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 4)), mutant: m, now: simStart, owned: map[int64][]span{}}
	if seed%5 == 0 {
		w.nodes = newSimNodes(w, seed%2 == 0)
		for i := range 3 {
			mode := []string{uid.ModeDefault, uid.ModeCached}[w.rng.IntN(2)]
			w.instances = append(w.instances, &instance{w: w, address: fmt.Sprint("uid", i), uidMode: mode})
		}
		return w
	}
	widths := [][2]uint{{10, 12}, {5, 7}, {8, 14}, {3, 5}}[seed%4]
	w.layout = model.SnowflakeLayout{EpochMs: 1288834974657, WorkerBits: widths[0], SeqBits: widths[1]}
	for n := range 2 {
		kind := simKind(w.rng.IntN(3))
		mode := fmt.Sprint("sim", min(n, w.rng.IntN(2))) // the second may be of the same mode, elsewhere
		w.registries = append(w.registries, &simRegistry{w: w, identity: fmt.Sprintf("%s %d", mode, n), kind: kind,
			inDB: n == 0 && kind != leased && w.rng.IntN(2) == 0, rows: map[int]simRow{}, backup: map[int]simRow{}})
	}
	w.db = &simDB{w: w, claims: map[string]model.WorkerClaim{}, since: simStart}
	w.moves, w.restores = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	for i := range 4 {
		address := fmt.Sprintf("10.0.0.%d:8080", min(i, 2)) // the last two claim one address
		w.instances = append(w.instances, &instance{w: w, address: address, disk: simDisk{identity: fmt.Sprint("disk", i)}})
	}
	return w
}

// durable says whether instances go on without their registry: then it may not lose
// its state and an instance not hear of it, and that is not simulated.
func (w *world) durable() bool {
	return w.registries[0].kind != leased || w.moves && w.registries[1].kind != leased
}

func (w *world) mayLose() bool { return !w.calm && (!w.durable() || !w.restores) }

func (w *world) note(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("%d: ", w.now-simStart)+fmt.Sprintf(format, args...))
}

func (w *world) run() (simtest.Tally, error) {
	act, heal := w.act, w.heal
	if w.nodes != nil {
		act, heal = w.actUIDs, w.healUIDs
	}
	for _, i := range w.instances {
		w.boot(i)
		defer i.endUIDs()
	}
	for n := 0; n < simSteps && w.failed == nil; n++ {
		act()
	}
	if w.failed == nil {
		heal()
	}
	if w.failed != nil {
		return nil, fmt.Errorf("%w\n%s", w.failed, w.story())
	}
	if w.nodes != nil {
		return simtest.Tally{"UIDs": w.issued, "worker IDs of UIDs used again": w.nodes.recycled}, nil
	}
	return simtest.Tally{"IDs": w.issued}, nil
}

func (w *world) fail(format string, args ...any) {
	w.failed = cmp.Or(w.failed, fmt.Errorf(format, args...))
}

// story is the end of what happened.
func (w *world) story() string {
	return strings.Join(w.faults[max(len(w.faults)-200, 0):], "\n")
}

// heal ends every fault, and the rolling change; then all that get a worker ID must
// issue.
func (w *world) heal() {
	w.db.away = false
	for _, r := range w.registries {
		r.away = false
	}
	for _, i := range w.instances {
		i.cut, i.stale, i.offset = false, false, 0
		if i.config != w.config {
			w.crash(i)
		}
		if i.life == 0 {
			w.boot(i)
		}
	}
	w.calm = true
	for range 20 {
		w.pass(2000)
	}
	w.pass(3 * 3_600_000) // past whatever a clock that was ahead reserved
	for range 20 {
		w.pass(2000)
	}
	before := w.issued
	for _, i := range w.instances {
		w.issue(i)
	}
	least := before + 2
	if w.registries[w.config].kind == fixed { // its worker IDs may belong to folders that are gone
		least = before + 1
	}
	if w.failed == nil && w.mutant == noMutant && w.issued < least {
		w.failed = errors.New("too little is issued hours after every fault has ended")
	}
}

func (w *world) act() {
	i := w.instances[w.rng.IntN(len(w.instances))]
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.pass(int64(w.rng.IntN(1500)))
	case n < 70:
		w.issue(i)
	case n < 74:
		w.pass(int64(w.rng.IntN(40_000)))
	default:
		w.harm(i, n)
	}
}

// harm is one fault, or the end of one.
func (w *world) harm(i *instance, n int) {
	calm := w.durable() && w.restores // see durable
	switch {
	case n < 79:
		w.crash(i)
	case n < 82:
		w.stop(i)
	case n < 87:
		if i.life == 0 && (!calm || !w.isAway()) {
			w.boot(i)
		}
	case n < 89 && i.life == 0:
		if w.rng.IntN(2) == 0 {
			w.note("%s lost its data folder", i)
			i.disk = simDisk{identity: fmt.Sprint(i.disk.identity, "'")}
			break
		}
		if other := w.instances[w.rng.IntN(len(w.instances))]; other.life == 0 {
			w.note("%s and %s swap addresses", i, other)
			i.address, other.address = other.address, i.address
		}
	case n < 92:
		w.setClock(i)
	case n < 94 && !calm:
		i.cut = !i.cut
		w.note("%s cut %t", i, i.cut)
	case n < 95:
		if !calm || w.isAway() || w.allKnow() {
			r := i.registry()
			if w.db.away || w.rng.IntN(2) == 0 {
				w.db.away = !w.db.away
			} else {
				r.away = !r.away
			}
			w.note("registry away %t, database away %t", r.away, w.db.away)
		}
	case n < 96:
		if w.moves {
			w.config = w.rng.IntN(2)
			w.note("new instances ask registry %d", w.config)
		}
	case n < 97:
		i.registry().backup = maps.Clone(i.registry().rows)
	default:
		if w.restores && w.recorded > 0 && w.now > w.recorded+settling.Milliseconds() { // see settling
			w.lose(i)
		}
	}
}

// lose lets a store lose what it knew: the database, or the registry of an instance.
func (w *world) lose(i *instance) {
	r := i.registry()
	switch n := w.rng.IntN(6); {
	case n < 3 || r.inDB:
		w.note("database fails over")
		w.db.failOver()
	case n == 3 && r.kind == leased:
		w.note("registry fails over, and some do not notice")
		r.deposed = maps.Clone(r.rows)
		r.restore(r.rows)
		for _, i := range w.instances {
			i.stale = i.registry() == r && w.rng.IntN(2) == 0
		}
	case n == 4:
		w.note("registry emptied")
		w.lives++
		r.restore(nil)
		r.rows, r.identity = map[int]simRow{}, fmt.Sprintf("%s %d", r.identity[:4], w.lives)
	default:
		w.note("registry restored")
		r.restore(r.backup)
	}
}

// isAway says whether some store cannot be reached.
func (w *world) isAway() bool { return w.db.away || w.registries[0].away || w.registries[1].away }

// allKnow says whether every instance has heard from the registry in this life, and
// since it went back in time.
func (w *world) allKnow() bool {
	for _, i := range w.instances {
		if i.life != 0 && i.heard < max(i.born, i.registry().keptSince, w.db.since)+1 {
			return false
		}
	}
	return true
}

func (w *world) setClock(i *instance) {
	most := []int64{10, 4000, 60_000, 3_600_000}[w.rng.IntN(4)]
	if w.durable() && w.restores {
		most = 2000
	}
	i.offset = w.rng.Int64N(2*most+1) - most
	if w.rng.IntN(3) == 0 {
		i.offset = 0
	}
	w.note("%s clock off by %d ms", i, i.offset)
}

func (w *world) boot(i *instance) {
	w.lives++
	i.life, i.term, i.born, i.config, i.stale = w.lives, 0, w.now, w.config, false
	i.due = w.now
	w.note("%s starts", i)
	if w.nodes != nil {
		w.bootUIDs(i)
	} else {
		w.bootSnowflakes(i)
	}
	i.keeper.owner.Address, i.keeper.owner.Token = i.address, fmt.Sprint("life", w.lives)
}

// bootSnowflakes makes the generator and the keeper of one life.
func (w *world) bootSnowflakes(i *instance) {
	gen, err := snowflake.NewGenerator(snowflake.Options{Layout: w.layout, Tolerance: 5 * time.Millisecond, Now: i.clock})
	if err != nil {
		panic(err)
	}
	i.gen = gen
	opts := Options{
		Condition: Condition, Mode: "sim", Registry: simLink{i.registry(), i}, Generator: simGenerator{gen, i},
		Layout: func(_ context.Context, record bool) (time.Duration, bool, error) { return w.db.layout(record) },
		Claim:  func(_ context.Context, c model.WorkerClaim) (model.ClaimGrant, error) { return w.db.claim(i, c) },
		Expiry: time.Minute, TTL: simTTL, MaxClockOffset: 5 * time.Second,
		Reporter: &check.Reports{}, Log: slog.New(slog.DiscardHandler), Now: i.clock,
	}
	if i.registry().kind != leased {
		opts.OpenFile = func(string) (File, error) { return simFile{i}, nil }
	}
	if i.keeper, err = New(opts); err != nil {
		panic(err)
	}
}

func (w *world) crash(i *instance) {
	if i.life != 0 {
		w.note("%s crashes", i)
		i.life = 0
		i.endUIDs()
	}
}

func (w *world) stop(i *instance) {
	if i.life != 0 {
		w.note("%s stops", i)
		_ = i.keeper.release(context.Background()) // a release that fails is a crash
		i.life = 0
		i.endUIDs()
	}
}

// pass lets true time go on; steps that are due are done, mostly.
func (w *world) pass(ms int64) {
	w.now += ms
	if w.nodes != nil {
		w.nodes.beat()
	} else {
		w.db.keep()
	}
	for _, i := range w.instances {
		if i.life != 0 && i.due <= w.now && (w.calm || w.rng.IntN(8) > 0) {
			w.step(i)
		}
	}
}

func (w *world) step(i *instance) {
	if w.mutant == noVouch {
		i.keeper.layoutSince = nil
	}
	i.due = w.now + i.keeper.step(context.Background()).Milliseconds()
}

// interleave lets other things happen in the middle of an instance's step: time
// passes, and IDs are taken.
func (w *world) interleave(i *instance) {
	if w.inside || i.life == 0 {
		return
	}
	w.inside = true
	defer func() { w.inside = false }()
	if !w.calm && w.rng.IntN(4) == 0 {
		w.now += int64(w.rng.IntN(3000))
	}
	for _, i := range []*instance{i, w.instances[w.rng.IntN(len(w.instances))]} {
		if w.nodes != nil {
			w.issueUIDs(i, 1+w.rng.IntN(8))
		} else {
			w.issue(i)
		}
	}
}

// issue takes an ID and holds it against all others.
func (w *world) issue(i *instance) {
	if i.life == 0 || w.failed != nil {
		return
	}
	id, got, _, err := i.gen.Take(1)
	if errors.Is(err, model.ErrNoLease) && !i.keeper.needed.Swap(true) {
		i.due = w.now
	}
	if err != nil || got == 0 {
		return
	}
	w.issued++
	bits := w.layout
	ms, worker := id>>(bits.WorkerBits+bits.SeqBits)+bits.EpochMs, id>>bits.SeqBits&int64(bits.Workers()-1)
	if ms > i.durable && w.mutant == noMutant {
		w.fail("%s issued an ID of %d, its bound is %d", i, ms-simStart, i.durable-simStart)
	}
	w.own(worker, ms, i.String())
}

// own notes that a term used a millisecond of a worker ID: no other term's
// milliseconds may lie among its own.
func (w *world) own(worker, ms int64, term string) {
	spans := w.owned[worker]
	mine := -1
	for n, s := range spans {
		if s.term == term {
			mine = n
		} else if s.from <= ms && ms <= s.to {
			w.fail("worker %d: %s used millisecond %d of %s", worker, term, ms-simStart, s.term)
		}
	}
	if mine < 0 {
		w.owned[worker] = append(spans, span{term, ms, ms})
		return
	}
	spans[mine].from, spans[mine].to = min(spans[mine].from, ms), max(spans[mine].to, ms)
	for n, s := range spans {
		if n != mine && s.from <= spans[mine].to && spans[mine].from <= s.to {
			w.fail("worker %d: the times of %s and %s lie among each other", worker, term, s.term)
		}
	}
}

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
	if g.inst.uids != nil {
		synctest.Wait() // the ring is filled
	}
}

func (i *instance) String() string {
	return fmt.Sprintf("%s/%s life %d term %d", i.address, i.disk.identity, i.life, i.term)
}
