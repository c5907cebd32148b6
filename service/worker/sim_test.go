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
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/repository/workerid"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

// A world of the simulation has machines with a clock, a data folder and a network, on which keepers and generators
// live one life after the other, two registries of package workerid, and the database. True time is the registries'; a
// machine's clocks are what its faults make of it.

// TestSimulation has a mutant for each guard: left out, it must let an ID repeat in some world.
func TestSimulation(t *testing.T) {
	simtest.Simulation[mutant]{
		Worlds: 10_000,
		Least:  map[string]float64{"IDs": 100},
		Mutants: map[mutant]uint64{
			noBound:         2,
			noAfter:         9,
			reportsInstead:  158,
			trustsItself:    130,
			leafFallback:    14,
			noVouch:         9,
			serverIgnored:   416,
			recordBelieved:  3352,
			noDoubt:         9,
			noClaims:        8,
			claimsStayOpen:  72,
			noWait:          9,
			addressBelieved: 71,
		},
		World: func(t *testing.T, seed uint64, m mutant) (tally simtest.Tally, err error) {
			t.Helper()
			if tally, err = newWorld(seed, m, false).run(); err != nil {
				return newWorld(seed, m, true).run()
			}
			return tally, nil
		},
	}.Run(t)
}

const (
	simTTL   = 10 * time.Second
	simStart = int64(1_800_000_000_000) // Unix ms
	simSteps = 400
)

// mutant is a guard that is left out.
type mutant string

const (
	noMutant       mutant = ""
	noBound        mutant = "no bound: the generator continues as long as it likes"
	noAfter        mutant = "no start bound: a term begins wherever the clock is"
	reportsInstead mutant = "report instead of reservation: what is stored is the time of the report"
	trustsItself   mutant = "trust until the server says so: a renewal without an answer counts"
	leafFallback   mutant = "Leaf's fallback: after any failure the worker ID of the file, without bounds"
	noVouch        mutant = "a registry that lost its state is believed"

	serverIgnored   mutant = "nobody notices that another server of the database answers"
	recordBelieved  mutant = "a database that is a copy has the first record of a layout"
	noDoubt         mutant = "what a registry has forgotten is not waited for"
	noClaims        mutant = "nobody claims what a registry's lease is used for"
	claimsStayOpen  mutant = "a claim that has ended is made longer, although another registry is in use"
	noWait          mutant = "no majority: a deposed server of the registry gives leases"
	addressBelieved mutant = "whoever comes from an address is the one that came from it before"
)

// instance is one machine with its clocks, its data folder and its network, and the process on it.
type instance struct {
	w       *world
	address string
	disk    simDisk
	offset  int64 // of its wall clock, ms
	slept   int64 // for how long its monotonic clock stood, ms
	asleep  bool
	full    bool  // its disk
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
}

func (i *instance) registry() *simRegistry { return i.w.registries[i.config] }

func (i *instance) clock() (int64, time.Duration) {
	return (i.w.now + i.offset) * int64(time.Millisecond), time.Duration(i.w.now-simStart-i.slept) * time.Millisecond
}

func (i *instance) runs() bool { return i.life != 0 && !i.asleep }

func (i *instance) String() string {
	return fmt.Sprintf("%s/%s life %d term %d", i.address, i.disk.identity, i.life, i.term)
}

// span is the times of the IDs that one term of a worker ID has issued.
type span struct {
	life, term int
	from, to   int64
}

// world is driven by one seed.
type world struct {
	rng        *rand.Rand
	mutant     mutant
	layout     idgen.Layout
	now        int64 // true time, Unix ms
	acts       []act
	registries []*simRegistry
	workers    int // of each registry: fewer than instances, mostly, so that they meet
	config     int // the registry of the instances that start from now on
	db         *simDB
	instances  []*instance
	moves      bool  // to the other registry and back, in rolling changes
	restores   bool  // registries and the database may go back in time
	recorded   int64 // when the layout was at first, true time
	lives      int
	inside     bool // interleave is under way
	calm       bool // no fault happens any more

	issued int
	owned  map[int64][]span // by worker ID
	tells  bool             // it notes what happens
	faults []string
	failed error
}

func newWorld(seed uint64, m mutant, tells bool) *world {
	w := &world{tells: tells, rng: rand.New(rand.NewPCG(seed, 4)), mutant: m, now: simStart, owned: map[int64][]span{}}
	widths := [][2]uint{{10, 12}, {5, 7}, {8, 14}, {3, 5}}[w.rng.IntN(4)]
	// In half of the worlds stores go back in time; in half of these no instance continues without its registry.
	onlyLeased := seed%4 == 1
	w.moves, w.restores = w.rng.IntN(2) == 0, seed%4 <= 1
	w.layout = model.SnowflakeLayout(1288834974657, widths[0], widths[1])
	for n := range 2 {
		kind := simKind(w.rng.IntN(3))
		if onlyLeased {
			kind = leased
		}
		mode := fmt.Sprint("sim", min(n, w.rng.IntN(2))) // the second may be of the same mode, elsewhere
		r := &simRegistry{w: w, identity: fmt.Sprintf("%s %d", mode, n), kind: kind, rows: map[int]simRow{},
			inDB: n == 0 && kind != leased && w.rng.IntN(2) == 0}
		r.Registry = workerid.NewRegistry(r, simMargin)
		w.registries = append(w.registries, r)
	}
	w.db = &simDB{w: w, claims: map[string]model.WorkerClaim{}, since: simStart}
	w.workers = 1 + w.rng.IntN(2)
	for i := range 2 + w.rng.IntN(3) {
		address := fmt.Sprintf("10.0.0.%d:8080", min(i, 2)) // the last two claim one address
		disk := simDisk{identity: fmt.Sprint("disk", i)}
		w.instances = append(w.instances, &instance{w: w, address: address, disk: disk})
	}
	w.acts = w.someActs()
	return w
}

// act is what may happen to an instance, or beside it, with its share of all that happens.
type act struct {
	share int
	do    func(*instance)
}

func (w *world) happens() {
	all := 0
	for _, a := range w.acts {
		all += a.share
	}
	n := w.rng.IntN(all)
	for _, a := range w.acts {
		if n -= a.share; n < 0 {
			a.do(w.instances[w.rng.IntN(len(w.instances))])
			return
		}
	}
}

// someActs are the acts of one world: of the faults, which are what is rare, it leaves some out and has others often.
func (w *world) someActs() []act {
	acts := []act{
		{40, func(*instance) { w.pass(w.rng.Int64N(1500)) }},
		{30, w.issue},
		{3, func(*instance) { w.pass(w.rng.Int64N(40_000)) }},
		{1, func(*instance) { w.pass(w.rng.Int64N(200_000)) }},
		{1, w.crash},
		{1, w.stop},
		{10, w.bootAgain}, // never left out
		{5, w.restart},
		{2, w.suspend},
		{2, w.moveFolder},
		{3, w.setClock},
		{2, w.cutOff},
		{1, w.setAway},
		{1, w.fillDisk},
		{1, w.roll},
		{1, func(i *instance) { i.registry().backup = maps.Clone(i.registry().rows) }},
		{3, w.lose},
	}
	for n := range acts {
		if acts[n].share < 10 {
			acts[n].share *= []int{0, 1, 2, 4}[w.rng.IntN(4)]
		}
	}
	return acts
}

// durable says whether instances continue without their registry: then it may not lose
// its state and an instance not hear of it, and that is not simulated.
func (w *world) durable() bool {
	return w.registries[0].kind != leased || w.moves && w.registries[1].kind != leased
}

// isHeard says whether every instance has to hear of what the stores lose.
func (w *world) isHeard() bool { return w.durable() && w.restores }

func (w *world) mayLose() bool { return !w.calm && !w.isHeard() }

func (w *world) note(format string, args ...any) {
	if !w.tells {
		return
	}
	w.faults = append(w.faults, fmt.Sprintf("%d: ", w.now-simStart)+fmt.Sprintf(format, args...))
}

func (w *world) run() (simtest.Tally, error) {
	for _, i := range w.instances {
		w.boot(i)
	}
	for n := 0; n < simSteps && w.failed == nil; n++ {
		w.happens()
	}
	if w.failed == nil {
		w.heal()
	}
	if w.failed != nil {
		return nil, fmt.Errorf("%w\n%s", w.failed, strings.Join(w.faults[max(len(w.faults)-200, 0):], "\n"))
	}
	return simtest.Tally{"IDs": w.issued}, nil
}

func (w *world) fail(format string, args ...any) {
	w.failed = cmp.Or(w.failed, fmt.Errorf(format, args...))
}

// heal ends every fault, and the rolling change; then all that get a worker ID must
// issue.
func (w *world) heal() {
	w.db.away = false
	for _, r := range w.registries {
		r.away = false
	}
	for _, i := range w.instances {
		i.cut, i.stale, i.full, i.offset = false, false, false, 0
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
	least := w.issued + w.workers
	if w.registries[w.config].kind == fixed { // its worker IDs may belong to folders that are gone
		least = w.issued + 1
	}
	for _, i := range w.instances {
		w.issue(i)
	}
	if w.failed == nil && w.mutant == noMutant && w.issued < least {
		w.failed = errors.New("too little is issued hours after every fault has ended")
	}
}

// bootAgain starts an instance that is down.
func (w *world) bootAgain(i *instance) {
	reaches := !w.isHeard() || !i.cut && !w.isAway()
	if i.life == 0 && (reaches || i.config == w.config && w.hasHeard(i)) {
		w.boot(i)
	}
}

// restart is over in a moment, in which other faults begin or end, and may come again soon.
func (w *world) restart(i *instance) {
	for range 1 + w.rng.IntN(3) {
		if w.rng.IntN(4) == 0 {
			w.stop(i)
		}
		w.crash(i)
		w.now += w.rng.Int64N(4000)
		if n := w.rng.IntN(8); n < 5 {
			[]func(*instance){w.setClock, w.setClock, w.cutOff, w.setAway, w.fillDisk}[n](i)
		}
		w.bootAgain(i)
		for range w.rng.IntN(8) {
			w.pass(w.rng.Int64N(1500))
			w.issue(i)
		}
	}
}

func (w *world) fillDisk(i *instance) {
	i.full = !i.full && !w.isHeard() // what it hears is in its file, which the next life knows
	w.note("%s disk full %t", i, i.full)
}

// suspend lets the monotonic clock stand while time passes for the others.
func (w *world) suspend(i *instance) {
	if i.life == 0 {
		return
	}
	began := w.now
	i.asleep = true
	for range 1 + w.rng.IntN(8) {
		w.pass(w.rng.Int64N([]int64{2000, 15_000}[w.rng.IntN(2)]))
		w.issue(w.instances[w.rng.IntN(len(w.instances))])
	}
	i.asleep = false
	i.slept += w.now - began
	w.note("%s slept for %d ms", i, w.now-began)
}

// moveFolder has an instance that is down lose its data folder, or change its address with another one.
func (w *world) moveFolder(i *instance) {
	other := w.instances[w.rng.IntN(len(w.instances))]
	switch {
	case i.life != 0:
	case w.rng.IntN(2) == 0:
		w.note("%s lost its data folder", i)
		i.disk = simDisk{identity: fmt.Sprint(i.disk.identity, "'")}
	case other.life == 0:
		w.note("%s and %s swap addresses", i, other)
		i.address, other.address = other.address, i.address
	}
}

func (w *world) setClock(i *instance) {
	most := []int64{10, 4000, 4000, 8000, 60_000, 3_600_000}[w.rng.IntN(6)]
	if w.isHeard() {
		most = 2000
	}
	i.offset = w.rng.Int64N(2*most+1) - most
	if w.rng.IntN(3) == 0 {
		i.offset = 0
	}
	w.note("%s clock off by %d ms", i, i.offset)
}

func (w *world) cutOff(i *instance) {
	if !w.isHeard() || i.cut || w.allKnow() {
		i.cut = !i.cut
		w.note("%s cut %t", i, i.cut)
	}
}

func (w *world) setAway(i *instance) {
	if w.isHeard() && !w.isAway() && !w.allKnow() {
		return
	}
	r := i.registry()
	if w.db.away || w.rng.IntN(2) == 0 {
		w.db.away = !w.db.away
	} else {
		r.away = !r.away
	}
	w.note("registry away %t, database away %t", r.away, w.db.away)
}

// roll has instances ask the other registry once they start, which some do now.
func (w *world) roll(*instance) {
	if !w.moves {
		return
	}
	w.config = 1 - w.config
	w.note("new instances ask registry %d", w.config)
	for _, i := range w.instances {
		if w.rng.IntN(2) == 0 {
			w.restart(i)
		}
	}
}

// lose lets a store lose what it knew: the database, or the registry of an instance.
func (w *world) lose(i *instance) {
	if !w.restores || w.recorded == 0 || w.now <= w.recorded+settling.Milliseconds() { // see settling
		return
	}
	if w.isHeard() && (w.isAway() || slices.ContainsFunc(w.instances, func(i *instance) bool { return i.cut })) {
		return
	}
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
		r.identity = fmt.Sprintf("%s %d", r.identity[:4], w.lives)
	default:
		w.note("registry restored")
		r.restore(r.backup)
	}
}

// isAway says whether some store cannot be reached.
func (w *world) isAway() bool { return w.db.away || w.registries[0].away || w.registries[1].away }

// hasHeard says whether an instance has heard from its registry since that went back in time.
func (w *world) hasHeard(i *instance) bool { return i.heard > max(i.registry().keptSince, w.db.since) }

// allKnow says whether every instance that runs has heard from its registry, in this life and since that went back.
func (w *world) allKnow() bool {
	return !slices.ContainsFunc(w.instances, func(i *instance) bool {
		return i.life != 0 && (i.heard <= i.born || !w.hasHeard(i))
	})
}

func (w *world) boot(i *instance) {
	w.lives++
	i.life, i.term, i.born, i.config, i.stale = w.lives, 0, w.now, w.config, false
	i.due = w.now
	w.note("%s starts", i)
	gen, err := idgen.New(idgen.Options{ // without a random start, so that the seed alone says what happens
		Layout: w.layout, Tolerance: 5 * time.Millisecond, CatchUp: 100 * time.Millisecond, Now: i.clock,
	})
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
	i.keeper = New(opts)
	i.keeper.owner.Address, i.keeper.owner.Token = i.address, fmt.Sprint("life", w.lives)
}

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

// pass lets true time continue; steps that are due are done, mostly.
func (w *world) pass(ms int64) {
	w.now += ms
	w.db.keep()
	for _, i := range w.instances {
		if i.runs() && i.due <= w.now && (w.calm || w.rng.IntN(8) > 0) {
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
		w.issue(i)
	}
}

// issue takes an ID and holds it against all others.
func (w *world) issue(i *instance) {
	if !i.runs() || w.failed != nil {
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
	ms, worker, _ := w.layout.Split(id)
	if ms > i.durable && w.mutant == noMutant {
		w.fail("%s issued an ID of %d, its bound is %d", i, ms-simStart, i.durable-simStart)
	}
	w.own(worker, ms, i)
}

// own notes that a term used a millisecond of a worker ID: no other term's
// milliseconds may lie among its own.
func (w *world) own(worker, ms int64, i *instance) {
	spans := w.owned[worker]
	mine := slices.IndexFunc(spans, func(s span) bool { return s.life == i.life && s.term == i.term })
	if mine < 0 {
		mine, spans = len(spans), append(spans, span{i.life, i.term, ms, ms})
		w.owned[worker] = spans
	}
	spans[mine].from, spans[mine].to = min(spans[mine].from, ms), max(spans[mine].to, ms)
	for n, s := range spans {
		if n != mine && s.from <= spans[mine].to && spans[mine].from <= s.to {
			w.fail("worker %d: %s issued IDs of times among those of life %d term %d, at %d", worker, i, s.life, s.term,
				ms-simStart)
		}
	}
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

func (g simGenerator) Extend(until int64, trust time.Duration) {
	if g.inst.w.mutant == noBound {
		until, trust = math.MaxInt64, math.MaxInt64
	}
	g.Generator.Extend(until, trust)
}
