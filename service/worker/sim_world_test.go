package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/snowflake"
)

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
	gen     *snowflake.Generator
	due     int64 // true time of its next step
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

// world is two registries, a database and the instances, driven by one seed.
type world struct {
	rng        *rand.Rand
	mutant     mutant
	now        int64 // true time, Unix ms
	registries []*simRegistry
	config     int // the registry of the instances that start from now on
	db         *simDB
	instances  []*instance
	moves      bool  // to the other registry and back, in rolling changes
	restores   bool  // registries and the database may go back in time
	recorded   int64 // when the layout was, true time
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

func (w *world) run() error {
	for _, i := range w.instances {
		w.boot(i)
	}
	for range simSteps {
		if w.act(); w.failed != nil {
			return w.failed
		}
	}
	w.heal()
	return w.failed
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
	gen, err := snowflake.New(snowflake.Options{EpochMs: 1288834974657, Tolerance: 5 * time.Millisecond, Now: i.clock})
	if err != nil {
		panic(err)
	}
	i.gen = gen
	opts := Options{
		Mode: "sim", Registry: simLink{i.registry(), i}, Generator: simGenerator{gen, i},
		Layout: func(context.Context) (time.Duration, error) {
			if w.recorded == 0 || w.mutant == noVouch {
				w.recorded = w.now
			}
			return time.Duration(w.now-w.recorded) * time.Millisecond, nil
		},
		Claim:  func(_ context.Context, c model.WorkerClaim) (model.ClaimGrant, error) { return w.db.claim(i, c) },
		Expiry: time.Minute, TTL: simTTL, MaxClockOffset: 5 * time.Second,
		Reporter: silent{}, Log: slog.New(slog.DiscardHandler), Now: i.clock,
	}
	if i.registry().kind != leased {
		opts.OpenFile = func(string) (File, error) { return simFile{i}, nil }
	}
	if i.keeper, err = New(opts); err != nil {
		panic(err)
	}
	i.keeper.owner.Address, i.keeper.owner.Token = i.address, fmt.Sprint("life", w.lives)
	i.due = w.now
	w.note("%s starts", i)
}

type silent struct{}

func (silent) Report(string, error) {}

func (w *world) crash(i *instance) {
	if i.life != 0 {
		w.note("%s crashes", i)
		i.life = 0
	}
}

func (w *world) stop(i *instance) {
	if i.life != 0 {
		w.note("%s stops", i)
		_ = i.keeper.release(context.Background()) // a release that fails is a crash
		i.life = 0
	}
}

// pass lets true time go on; steps that are due are done, mostly.
func (w *world) pass(ms int64) {
	w.now += ms
	w.db.keep()
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
	w.issue(i)
	w.issue(w.instances[w.rng.IntN(len(w.instances))])
}

// issue takes an ID and holds it against all others.
func (w *world) issue(i *instance) {
	if i.life == 0 || w.failed != nil {
		return
	}
	id, got, _, err := i.gen.Take(1)
	if err != nil || got == 0 {
		return
	}
	w.issued++
	ms, worker := id>>22+1288834974657, id>>12&1023
	if ms > i.durable && w.mutant == noMutant {
		w.failed = fmt.Errorf("%s issued an ID of %d, its bound is %d", i, ms-simStart, i.durable-simStart)
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
			w.failed = fmt.Errorf("worker %d: %s used millisecond %d of %s", worker, term, ms-simStart, s.term)
		}
	}
	if mine < 0 {
		w.owned[worker] = append(spans, span{term, ms, ms})
		return
	}
	spans[mine].from, spans[mine].to = min(spans[mine].from, ms), max(spans[mine].to, ms)
	for n, s := range spans {
		if n != mine && s.from <= spans[mine].to && spans[mine].from <= s.to {
			w.failed = fmt.Errorf("worker %d: the times of %s and %s lie among each other", worker, term, s.term)
		}
	}
}
