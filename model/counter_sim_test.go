package model_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/simtest"
)

//nolint:gochecknoglobals // a flag
var counterWorlds = flag.Uint64("counter.worlds", 1000, "how many worlds TestSimulationCounter simulates")

// counterMutant is a part of the mechanism that a world leaves out.
type counterMutant string

const (
	wholeMechanism  counterMutant = ""
	noBucket        counterMutant = "the rate is not enforced"
	noWait          counterMutant = "the jump does not wait"
	oneRate         counterMutant = "the jump is R·g instead of 2·R·g"
	identityIgnored counterMutant = "only another server is noted, not a restart that lost something"
	lateMark        counterMutant = "the mark is raised after the numbers are used"
	memoryless      counterMutant = "a jump that the copy does not know of is forgotten"
	noName          counterMutant = "whoever has a Redis takes numbers under it, named or not"
	noHold          counterMutant = "whoever reaches the witness lets it vouch"
	noAck           counterMutant = "a witness is retired while others hold it"
	noSettle        counterMutant = "rows count as settled when the change is noted"
	newRows         counterMutant = "a row that is made accounts for all changes"
)

// copyOfDB is what one server holds: the counter's row, and the deployment's. Its slices and
// maps are never changed.
type copyOfDB struct {
	made    bool // the row exists; a copy that lacks it gets it made again
	row     model.Counter
	last    int64 // change that the row accounts for
	changes []model.Change
	server  string // that the deployment's row names
	opened  period // of the mutant storedBase of business numbers
	model.ServerTimes
	witness string
	place   int
	members []memberRow
}

type memberRow struct {
	model.Member
	seenAt time.Time
}

// simWitness is a Redis: it forgets when it restarts.
type simWitness struct {
	life string
	mark int64
}

// simHolder is a replica. It is cut off from the database until cut, and its Redis does
// not answer it until deaf.
type simHolder struct {
	id    string
	redis int // -1 is none
	seen  model.ServerTimes
	last  model.Change // that it has seen
	met   time.Time    // the change that is not noted yet
	uses  string
	used  time.Time // when its Redis answered last
	hold  struct {
		witness   string
		since, at time.Time
	}
	cut, deaf time.Time
}

type counterWorld struct {
	mutant counterMutant
	rng    *rand.Rand
	rate   int64
	now    time.Time
	skew   time.Duration // of the present server's clock
	skewed bool          // the servers' clocks differ

	db     copyOfDB
	server string
	past   []struct {
		at time.Time
		db copyOfDB
	}
	lives    int
	redis    [2]simWitness
	replicas [3]*simHolder
	noted    *simHolder // saw the last change of the server
	only     *simHolder // who notes the next one
	quiet    time.Time  // no heartbeat is sent until then

	issued []model.Segment
	jumps  int

	// choose takes numbers of a row above floor, and used is told of them once they are
	// used; nil for a plain counter.
	choose func(row model.Counter, floor, want int64) (first, n int64, next model.Counter, err error)
	used   func(first, n int64)
}

func newCounterWorld(seed uint64, m counterMutant) *counterWorld {
	w := &counterWorld{mutant: m, rng: rand.New(rand.NewPCG(seed, 7)), now: noon, rate: 100, server: "s0"}
	w.skewed = seed%3 == 0
	w.db = copyOfDB{row: model.Counter{Rate: w.rate}, server: "s0", ServerTimes: model.ServerTimes{Since: noon, Beat: noon}}
	for i := range w.redis {
		w.redis[i].life = w.newName("life")
	}
	for i := range w.replicas {
		w.replicas[i] = w.newReplica(int(seed%2) - 1)
	}
	w.noted = w.replicas[0]
	return w
}

func (w *counterWorld) newName(of string) string { w.lives++; return fmt.Sprint(of, w.lives) }

func (w *counterWorld) newReplica(redis int) *simHolder {
	return &simHolder{id: w.newName("replica"), redis: redis, used: w.now}
}

func (w *counterWorld) clock() time.Time { return w.now.Add(w.skew) } // of the database

func (w *counterWorld) chance(one int) bool { return w.rng.IntN(one) == 0 }

func (w *counterWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d)))
}

// step lets a little time pass and something happen.
func (w *counterWorld) step() {
	w.past = append(w.past, struct {
		at time.Time
		db copyOfDB
	}{w.now, w.db})
	pause := w.pause()
	for tick := max(time.Second, pause/100); pause > 0; pause -= tick {
		w.now = w.now.Add(min(pause, tick))
		for _, r := range w.replicas {
			w.attend(r)
		}
	}
	r := w.replicas[w.rng.IntN(len(w.replicas))]
	switch n := w.rng.IntN(1000); {
	case n < 25:
		w.failOver()
	case n < 35:
		w.quiet = w.now.Add(w.upTo(time.Minute))
	case n < 45:
		for _, each := range w.replicas {
			if each == r || n < 40 {
				each.deaf = w.now.Add(w.upTo(time.Minute))
			}
		}
	case n < 55:
		r.cut = w.now.Add(w.upTo(time.Minute))
		if w.chance(4) {
			r.cut = r.cut.Add(20 * time.Minute)
		}
	case n < 60: // Redis restarts: with what an old snapshot holds
		old := &w.redis[w.rng.IntN(2)]
		*old = simWitness{life: w.newName("life"), mark: w.rng.Int64N(old.mark + 1)}
	case n < 66: // another Redis, or none
		r.redis = w.rng.IntN(len(w.redis)+1) - 1
	case n < 72: // killed; another one starts
		redis := r.redis
		if w.noted == r {
			w.noted = nil
		}
		*r = *w.newReplica(redis)
	default:
		for range 1 + w.rng.IntN(4) {
			w.take(w.replicas[w.rng.IntN(len(w.replicas))])
		}
	}
}

func (w *counterWorld) pause() time.Duration {
	switch {
	case w.chance(1500):
		return 16*time.Minute + w.upTo(time.Minute)
	case w.chance(40):
		return w.upTo(90 * time.Second)
	}
	return w.upTo(400 * time.Millisecond)
}

func (w *counterWorld) changes() int64 { return int64(len(w.db.changes)) }

// failOver makes an older copy the primary: mostly a replica that lags, sometimes the
// server itself that comes back without its last second, or an old backup. A copy that
// lacks an earlier change is out of the promise, unless one who saw that meets it first.
func (w *counterWorld) failOver() {
	lag, name := w.upTo(20*time.Second), "replica"
	switch w.rng.IntN(6) {
	case 0:
		lag = w.upTo(20 * time.Minute)
	case 1, 2:
		lag, name = w.upTo(time.Second), "restart"
	case 3:
		lag = 0
	}
	for i := len(w.past) - 1; i >= 0; i-- {
		if w.past[i].at.After(w.now.Add(-lag)) {
			continue
		}
		if len(w.past[i].db.changes) < len(w.db.changes) {
			if w.only = w.noted; w.only == nil {
				return
			}
		}
		w.restore(w.past[i].db, name)
		if w.chance(2) {
			w.turnRound()
		}
		return
	}
}

// turnRound ends a partition: who was cut off meets the new server first.
func (w *counterWorld) turnRound() {
	for _, r := range w.replicas {
		if w.now.After(r.cut) {
			r.cut = w.now.Add(w.upTo(20 * time.Second))
		} else {
			r.cut = w.now
		}
	}
}

func (w *counterWorld) restore(db copyOfDB, name string) {
	w.db = db
	w.lives++
	switch {
	case name != "restart":
		w.server = fmt.Sprint(name, " ", w.lives)
	case w.mutant == identityIgnored:
		w.server = db.server
	default: // the same machine, another boot
		w.server = fmt.Sprint(machine(w.server), "/", w.lives)
	}
	if w.skewed && name != "restart" {
		w.skew = w.upTo(2*model.MaxClockApart) - model.MaxClockApart
	}
}

func machine(server string) string {
	name, _, _ := strings.Cut(server, "/")
	return name
}

// reaches says whether a replica's Redis answers it, and with which life.
func (w *counterWorld) reaches(r *simHolder) (*simWitness, bool) {
	if r.redis < 0 || !w.now.After(r.deaf) {
		return nil, false
	}
	return &w.redis[r.redis], true
}

// meets says whether a replica reaches the database, after it has noted a change of it.
func (w *counterWorld) meets(r *simHolder) bool {
	if !w.now.After(r.cut) {
		return false
	}
	if r.hold.witness != w.db.witness {
		r.hold.witness = ""
	}
	if w.db.server != w.server || w.db.Behind(r.seen) || w.lacks(r) {
		if w.only != nil && w.only != r || !w.note(r) {
			return false
		}
		w.only, w.noted = nil, r
	}
	r.seen, r.met = w.db.ServerTimes, time.Time{}
	if !r.hold.since.Equal(w.db.Since) { // it is said anew on each server
		r.hold.witness = ""
	}
	if n := len(w.db.changes); n > 0 {
		r.last = w.db.changes[n-1]
	}
	if len(w.db.changes) > 0 && w.noted == nil {
		w.noted = r
	}
	return true
}

// attend is a heartbeat of a replica.
func (w *counterWorld) attend(r *simHolder) {
	redis, answers := w.reaches(r)
	switch {
	case answers:
		r.uses, r.used = redis.life, w.now
	case r.redis < 0 || w.now.Sub(r.used) >= 2*time.Second:
		r.uses = ""
	}
	if !w.meets(r) {
		return
	}
	if w.clock().Sub(w.db.Beat) >= model.BeatEvery && w.now.After(w.quiet) {
		w.db.Beat = w.clock()
	}
	duty := w.judge(r, false)
	if !duty.Hold {
		r.hold.witness = ""
	}
	if w.chance(20) {
		return // the transaction failed
	}
	w.say(r, duty.Hold)
	replaced := answers && w.db.place == r.redis && redis.life != model.WitnessLife(w.db.witness)
	if duty = w.judge(r, replaced); duty.Retire || w.mutant == noAck && w.db.witness != "" && !duty.Hold {
		w.db.witness = ""
		duty.Name = duty.Name || w.judge(r, false).Name
	}
	if duty.Name && answers {
		w.db.witness, w.db.place = redis.life+" "+w.newName("name"), r.redis
	}
	if r.hold.witness != "" && answers && redis.life == r.uses && w.chance(4) {
		w.settle(redis)
	}
}

// say stores what a replica uses and holds.
func (w *counterWorld) say(r *simHolder, hold bool) {
	me := model.Member{ID: r.id, Uses: r.uses}
	if hold {
		me.Holds = w.db.witness
		if r.hold.witness != w.db.witness {
			r.hold.witness, r.hold.since = w.db.witness, w.db.Since
		}
		r.hold.at = w.now
	}
	members := []memberRow{{me, w.clock()}}
	for _, m := range w.db.members {
		if m.ID != r.id && w.clock().Sub(m.seenAt) < 4*model.HoldLasts {
			members = append(members, m)
		}
	}
	w.db.members = members
}

func (w *counterWorld) judge(r *simHolder, replaced bool) model.Duty {
	var others []model.Member
	for _, m := range w.db.members {
		if m.ID != r.id {
			m.Quiet = w.clock().Sub(m.seenAt)
			others = append(others, m.Member)
		}
	}
	return model.Judge(w.db.witness, model.Member{ID: r.id, Uses: r.uses}, others, replaced)
}

// settle brings the row up to the mark, once the witness has vouched.
func (w *counterWorld) settle(redis *simWitness) {
	w.db.row.Doubt, w.db.last = w.doubt(), w.changes()
	w.db.row = w.db.row.Raise(redis.mark)
	w.db.changes = slices.Clone(w.db.changes)
	for i, c := range w.db.changes {
		if c.Witness == w.db.witness {
			w.db.changes[i].Witness = settled
		}
	}
}

// settled stands for a change that no row has to account for.
const settled = "settled"

// note is what sqlstore does when another server answers.
func (w *counterWorld) note(r *simHolder) bool {
	vouched := false
	if w.db.witness != "" && (w.db.server != w.server || !w.lacks(r)) {
		redis, answers := w.reaches(r)
		patience := 4 * time.Second
		if w.holds(r) || w.mutant == noHold {
			patience = 10 * time.Second
			vouched = answers && redis.life == model.WitnessLife(w.db.witness)
		}
		if r.met.IsZero() {
			r.met = w.now
		}
		if !vouched && w.now.Sub(r.met) < patience {
			return false
		}
	}
	next, gap := w.db.Note(r.seen, w.clock(), machine(w.db.server) == machine(w.server), w.lacks(r) && w.mutant != memoryless)
	if !vouched {
		w.db.witness, r.hold.witness = "", ""
	}
	rate := w.rate
	if w.mutant == oneRate {
		rate /= 2
	}
	change := model.Change{Number: w.changes() + 1, Gap: gap, ListRate: rate, Witness: w.db.witness}
	if vouched && w.mutant == noSettle {
		change.Witness = settled
	}
	w.db.changes = append(slices.Clip(w.db.changes), change)
	w.db.server, w.db.ServerTimes = w.server, next
	return true
}

// lacks says whether the database lacks the last change that a replica has seen.
func (w *counterWorld) lacks(r *simHolder) bool {
	return r.last.Number > 0 && !slices.ContainsFunc(w.db.changes, func(c model.Change) bool {
		return c.Number == r.last.Number && c.Gap.Now.Equal(r.last.Gap.Now)
	})
}

// holds is Store.holds of sqlstore.
func (w *counterWorld) holds(r *simHolder) bool {
	h := r.hold
	return h.witness != "" && h.witness == w.db.witness && w.now.Sub(h.at) <= model.HoldLasts &&
		h.since.Equal(w.db.Since) && h.since.Equal(r.seen.Since)
}

func (w *counterWorld) take(r *simHolder) {
	if !w.meets(r) || w.changes() > 0 && w.clock().Sub(w.db.Since) < model.ObjectFor {
		return
	}
	if !w.db.made {
		if w.db.made = w.chance(10); w.mutant == newRows {
			w.db.last = w.changes()
		}
		return
	}
	redis, answers := w.reaches(r)
	var mark int64
	if w.db.witness != "" && w.mutant != noName {
		if !answers || redis.life != model.WitnessLife(w.db.witness) {
			return
		}
		mark = redis.mark
	}
	row := w.db.row
	row.JumpFrom = w.db.JumpFrom
	row.Doubt = w.doubt()
	if w.mutant == noBucket {
		row.Rate = 0
	}
	if w.mutant == noWait {
		row.JumpFrom = time.Time{}
	}
	choose := w.choose
	if choose == nil {
		choose = func(row model.Counter, floor, want int64) (first, n int64, next model.Counter, err error) {
			return row.Take(floor, want, 1<<55, w.clock())
		}
	}
	first, n, next, err := choose(row, mark, 1+w.rng.Int64N(2*w.rate))
	if err != nil {
		return
	}
	if row.Doubt > 0 && first > row.Last+1 {
		w.jumps++
	}
	next.Rate = w.rate
	if answers && (w.db.witness != "" || w.mutant == noName) && (w.mutant != lateMark || !w.chance(10)) {
		redis.mark = max(redis.mark, next.Last)
	}
	if w.chance(30) {
		return // the commit failed: a gap
	}
	w.db.row, w.db.last = next, w.changes()
	w.issued = append(w.issued, model.Segment{First: first, Last: first + n - 1})
	if w.used != nil {
		w.used(first, n)
	}
}

// doubt is what the row may lack by now.
func (w *counterWorld) doubt() int64 {
	var since []model.Change
	for _, c := range w.db.changes {
		if c.Number > w.db.last && c.Witness != settled {
			since = append(since, c)
		}
	}
	return model.Doubt(since, w.db.witness, func(c model.Change) int64 { return c.ListRate }, w.db.row.At, w.db.row.Doubt)
}

// check is nil when no number was handed out twice.
func (w *counterWorld) check() error {
	sort.Slice(w.issued, func(i, j int) bool { return w.issued[i].First < w.issued[j].First })
	for i := 1; i < len(w.issued); i++ {
		if before, after := w.issued[i-1], w.issued[i]; after.First <= before.Last {
			return fmt.Errorf("%v and %v overlap", before, after)
		}
	}
	return nil
}

// Whatever the database and its witness do, alone, together or in a row, no number is
// handed out twice. Each part that is left out shows.
func counterSimulation() simtest.Simulation[counterMutant] {
	return simtest.Simulation[counterMutant]{
		Worlds: *counterWorlds, Seeds: 5000, Least: map[string]float64{"segments": 200, "jumps": 1},
		Mutants: []counterMutant{noBucket, noWait, oneRate, identityIgnored,
			lateMark, memoryless, noName, noHold, noAck, noSettle, newRows},
		World: func(_ *testing.T, seed uint64, m counterMutant) (simtest.Tally, error) {
			w := newCounterWorld(seed, m)
			for range 600 {
				w.step()
			}
			return simtest.Tally{"segments": len(w.issued), "jumps": w.jumps}, w.check()
		},
	}
}

func TestSimulationCounter(t *testing.T)               { counterSimulation().Run(t) }
func TestSimulationCounterCatchesMutants(t *testing.T) { counterSimulation().Catches(t) }
