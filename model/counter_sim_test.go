package model_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"shardid/model"
	"shardid/model/witness"
	"shardid/scripts/simtest"
)

//nolint:gochecknoglobals // a flag
var counterWorlds = flag.Uint64("counter.worlds", 1000, "how many worlds TestSimulationCounter simulates")

// counterRow is the counter's row. A copy of the database may lack it, and it is made again.
type counterRow struct {
	made     bool
	counter  model.Counter
	accounts int64 // changes of the server that it accounts for
}

// pastCopy is what a copy of the database may hold.
type pastCopy struct {
	at  time.Time
	row counterRow
	db  simtest.Copy
}

// simWitness is a Redis: it forgets when it restarts.
type simWitness struct {
	life string
	mark int64
}

// simHolder is a replica. Its Redis does not answer it until deaf.
type simHolder struct {
	simtest.Replica
	redis int // -1 is none
	deaf  time.Time
}

type counterWorld struct {
	*simtest.Database
	rng    *rand.Rand
	now    time.Time
	skewed bool // the servers' clocks differ

	row      counterRow
	past     []pastCopy
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

func newCounterWorld(seed uint64) *counterWorld {
	w := &counterWorld{rng: rand.New(rand.NewPCG(seed, 7)), now: noon, skewed: seed%3 == 0}
	w.Database = &simtest.Database{
		Rate: 100, Now: func() time.Time { return w.now },
		Chance: func(percent int) bool { return w.rng.IntN(100) < percent },
	}
	w.ServerTimes = model.ServerTimes{Since: noon, Beat: noon}
	w.row.counter.Rate = w.Rate
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
	r := &simHolder{Replica: simtest.Replica{ID: w.newName("replica")}, redis: redis}
	r.Redis = func(bool) (string, int, bool) {
		if r.redis < 0 {
			return "", r.redis, true
		}
		return w.redis[r.redis].life, r.redis, w.now.After(r.deaf)
	}
	r.Settle = func() {
		w.row.counter.Doubt, w.row.accounts = w.doubt(), w.changes()
		w.row.counter = w.row.counter.Raise(w.redis[r.redis].mark)
	}
	return r
}

func (w *counterWorld) chance(one int) bool { return w.rng.IntN(one) == 0 }

func (w *counterWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d)))
}

// step lets a little time pass and something happen.
func (w *counterWorld) step() {
	w.past = append(w.past, pastCopy{w.now, w.row, w.Copy})
	pause := w.pause()
	for tick := max(time.Second, pause/100); pause > 0; pause -= tick {
		w.now = w.now.Add(min(pause, tick))
		for _, r := range w.replicas {
			if w.meets(r) {
				if w.Clock().Sub(w.Beat) >= model.BeatEvery && w.now.After(w.quiet) {
					w.Beat = w.Clock()
				}
				w.Attend(&r.Replica)
			}
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
		r.Cut = w.now.Add(w.upTo(time.Minute))
		if w.chance(4) {
			r.Cut = r.Cut.Add(20 * time.Minute)
		}
	case n < 60: // Redis restarts: with what an old snapshot holds
		old := &w.redis[w.rng.IntN(2)]
		*old = simWitness{life: w.newName("life"), mark: w.rng.Int64N(old.mark + 1)}
	case n < 66: // another Redis, or none
		r.redis = w.rng.IntN(len(w.redis)+1) - 1
	case n < 72 && r != w.only: // killed; another one starts
		if w.noted == r {
			w.noted = nil
		}
		w.replicas[slices.Index(w.replicas[:], r)] = w.newReplica(r.redis)
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

func (w *counterWorld) changes() int64 { return int64(len(w.Changes)) }

// failOver makes an older copy the primary: mostly a replica that lags, sometimes the
// server itself that comes back without its last second, or an old backup. A copy that
// lacks an earlier change is out of the promise, unless one who saw that meets it first.
func (w *counterWorld) failOver() {
	lag, restart := w.upTo(20*time.Second), false
	switch w.rng.IntN(6) {
	case 0:
		lag = w.upTo(20 * time.Minute)
	case 1, 2:
		lag, restart = w.upTo(time.Second), true
	case 3:
		lag = 0
	}
	for i := len(w.past) - 1; i >= 0; i-- {
		if w.past[i].at.After(w.now.Add(-lag)) {
			continue
		}
		if len(w.past[i].db.Changes) < len(w.Changes) {
			if w.only = w.noted; w.only == nil {
				return
			}
		}
		w.row, w.Copy = w.past[i].row, w.past[i].db
		w.serve(restart)
		if w.chance(2) {
			w.turnRound()
		}
		return
	}
}

// turnRound ends a partition: who was cut off meets the new server first.
func (w *counterWorld) turnRound() {
	for _, r := range w.replicas {
		if w.now.After(r.Cut) {
			r.Cut = w.now.Add(w.upTo(20 * time.Second))
		} else {
			r.Cut = w.now
		}
	}
}

// serve lets another server answer, or the same machine after another boot.
func (w *counterWorld) serve(restart bool) {
	w.lives++
	if restart {
		w.Answers.Boot = w.lives
		return
	}
	w.Answers = simtest.Server{Name: w.lives}
	if w.skewed {
		w.Skew = w.upTo(2*model.MaxClockApart) - model.MaxClockApart
	}
}

// meets says whether a replica reaches the database, after it has noted a change of it.
func (w *counterWorld) meets(r *simHolder) bool {
	before := len(w.Changes)
	if w.only != nil && w.only != r && w.Changed(&r.Replica) || !w.Meets(&r.Replica) {
		return false
	}
	if len(w.Changes) > before {
		w.only, w.noted = nil, r
	}
	if len(w.Changes) > 0 && w.noted == nil {
		w.noted = r
	}
	return true
}

func (w *counterWorld) take(r *simHolder) {
	if !w.meets(r) || w.Unsettled() {
		return
	}
	if !w.row.made {
		w.row.made = w.chance(10)
		return
	}
	life, at, answers := r.Redis(false)
	var mark int64
	if w.Witness != "" {
		if !answers || life != witness.Life(w.Witness) {
			return
		}
		mark = w.redis[at].mark
	}
	row := w.row.counter
	row.JumpFrom, row.Doubt = w.JumpFrom, w.doubt()
	choose := w.choose
	if choose == nil {
		choose = func(row model.Counter, floor, want int64) (first, n int64, next model.Counter, err error) {
			return row.TakeNumbers(floor, want, 1<<55, w.Clock())
		}
	}
	first, n, next, err := choose(row, mark, 1+w.rng.Int64N(200))
	if err != nil {
		return
	}
	if row.Doubt > 0 && first > row.Last+1 {
		w.jumps++
	}
	next.Rate = w.row.counter.Rate
	if w.Witness != "" {
		w.redis[at].mark = max(w.redis[at].mark, next.Last)
	}
	if w.chance(30) {
		return // the commit failed: a gap
	}
	w.row.counter, w.row.accounts = next, w.changes()
	w.issued = append(w.issued, model.Segment{First: first, Last: first + n - 1})
	if w.used != nil {
		w.used(first, n)
	}
}

// doubt is what the row may lack by now.
func (w *counterWorld) doubt() int64 {
	return w.Doubt(w.row.accounts, w.row.counter.At, w.row.counter.Doubt)
}

// check is nil when no number was issued twice.
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
// issued twice. What is left out of the real code shows: scripts/mutants.
func TestSimulationCounter(t *testing.T) {
	simtest.Simulation[string]{
		Worlds: *counterWorlds, Least: map[string]float64{"segments": 200, "jumps": 1},
		World: func(_ *testing.T, seed uint64, _ string) (simtest.Tally, error) {
			w := newCounterWorld(seed)
			for range 600 {
				w.step()
			}
			return simtest.Tally{"segments": len(w.issued), "jumps": w.jumps}, w.check()
		},
	}.Run(t)
}
