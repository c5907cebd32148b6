package model_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/simtest"
)

//nolint:gochecknoglobals // a flag
var counterWorlds = flag.Uint64("counter.worlds", 1000, "how many worlds TestSimulationCounter simulates")

// witnessFresh is how old the last beat of a witness may be.
const witnessFresh = 6 * time.Second

// counterMutant is a part of the mechanism that a world leaves out.
type counterMutant string

const (
	wholeMechanism  counterMutant = ""
	noBucket        counterMutant = "the rate is not enforced"
	noHeartbeat     counterMutant = "the age of a copy is that of its row"
	noWait          counterMutant = "the jump does not wait"
	oneRate         counterMutant = "the jump is R·g instead of 2·R·g"
	identityIgnored counterMutant = "only another server is noted, not a restart that lost something"
	staleMark       counterMutant = "the witness vouches although it was not in use"
	lateMark        counterMutant = "the mark is raised after the numbers are used"
	anyLife         counterMutant = "a mark of another life counts"
	sameLife        counterMutant = "the witness' life goes on over a break"
	memoryless      counterMutant = "a jump that the copy does not know of is forgotten"
)

// copyOfDB is what one server holds: the counter's row, and the deployment's.
type copyOfDB struct {
	row    model.Counter
	server string // that the deployment's row names
	opened period // of the mutant storedBase of business numbers
	model.ServerTimes
}

// simWitness is a Redis: it forgets when it restarts, and it may be swapped.
type simWitness struct {
	life string
	mark int64
	beat time.Time
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
	lives     int
	witness   simWitness
	elsewhere *simWitness // another Redis that was used before
	present   bool        // there is a witness
	away      time.Time   // the witness does not answer until then
	answered  time.Time   // when it answered last
	seen      model.ServerTimes
	met       bool      // the database has answered since the witness was swapped
	deaf      time.Time // no heartbeat is sent until then

	issued []model.Segment
	jumps  int

	// choose takes numbers of a row, and used is told of them once they are used; nil for
	// a plain counter.
	choose func(row model.Counter, known model.Evidence, want int64) (first, n int64, next model.Counter, err error)
	used   func(first, n int64)
}

func newCounterWorld(seed uint64, m counterMutant) *counterWorld {
	w := &counterWorld{mutant: m, rng: rand.New(rand.NewPCG(seed, 7)), now: noon, rate: 100, server: "s0"}
	w.present, w.skewed = seed%2 == 0, seed%3 == 0
	w.db = copyOfDB{row: model.Counter{Rate: w.rate}, server: "s0", ServerTimes: model.ServerTimes{Since: noon, Beat: noon}}
	w.witness = simWitness{life: w.newLife(), beat: noon}
	w.answered, w.met = noon, true
	return w
}

func (w *counterWorld) newLife() string { w.lives++; return fmt.Sprint("life ", w.lives) }

func (w *counterWorld) clock() time.Time { return w.now.Add(w.skew) } // of the database

// step lets a little time pass and something happen.
func (w *counterWorld) step() {
	w.past = append(w.past, struct {
		at time.Time
		db copyOfDB
	}{w.now, w.db})
	pause := time.Duration(w.rng.Int64N(int64(400 * time.Millisecond)))
	if w.rng.IntN(40) == 0 {
		pause = time.Duration(w.rng.Int64N(int64(90 * time.Second)))
	}
	w.beat()
	answers := w.met && w.now.After(w.away)
	w.now = w.now.Add(pause)
	if answers {
		w.witness.beat, w.answered = w.now, w.now // it was beaten all the time
	}
	w.beat()
	switch n := w.rng.IntN(1000); {
	case n < 25:
		w.failOver()
	case n < 35:
		w.deaf = w.now.Add(time.Duration(w.rng.Int64N(int64(time.Minute))))
	case n < 50:
		w.away = w.now.Add(time.Duration(w.rng.Int64N(int64(time.Minute))))
	case n < 58: // Redis restarts: with what an old snapshot holds
		w.witness = simWitness{life: w.newLife(), mark: w.rng.Int64N(w.witness.mark + 1), beat: w.witness.beat}
	case n < 64 && w.present:
		w.move()
	default:
		for range 1 + w.rng.IntN(4) {
			w.take()
		}
	}
}

func (w *counterWorld) beat() {
	if w.clock().Sub(w.db.Beat) >= model.BeatEvery && w.now.After(w.deaf) && w.db.server == w.server {
		w.db.Beat = w.clock()
	}
	if w.met && w.now.After(w.away) {
		if w.now.Sub(w.witness.beat) > witnessFresh && w.mutant != sameLife {
			w.witness.life = w.newLife() // numbers may have been taken without it
		}
		w.witness.beat = w.now
	}
}

// move changes to another Redis, or back to one that was left long ago; back with a
// database of that time, which is what a rolled-back deployment is.
func (w *counterWorld) move() {
	left := w.witness
	if w.elsewhere == nil {
		w.met = false
		w.elsewhere, w.witness = &left, simWitness{life: w.newLife()}
		return
	}
	if w.now.Sub(w.elsewhere.beat) <= witnessFresh {
		return // out of the promise: back within the time that a beat vouches for
	}
	w.met = false
	w.witness, w.elsewhere = *w.elsewhere, &left
	for i := len(w.past) - 1; i >= 0; i-- {
		if !w.past[i].at.After(w.witness.beat) {
			w.restore(w.past[i].db, "restored")
			return
		}
	}
}

// failOver makes an older copy the primary: mostly a replica that lags, sometimes the
// server itself that comes back without its last second, or an old backup.
func (w *counterWorld) failOver() {
	lag, name := time.Duration(w.rng.Int64N(int64(20*time.Second))), "replica"
	switch w.rng.IntN(6) {
	case 0:
		lag = time.Duration(w.rng.Int64N(int64(20 * time.Minute)))
	case 1, 2:
		lag, name = time.Duration(w.rng.Int64N(int64(time.Second))), "restart"
	case 3:
		lag = 0
	}
	for i := len(w.past) - 1; i >= 0; i-- {
		if !w.past[i].at.After(w.now.Add(-lag)) {
			w.restore(w.past[i].db, name)
			return
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
		w.skew = time.Duration(w.rng.Int64N(int64(2*model.MaxClockApart))) - model.MaxClockApart
	}
}

func machine(server string) string {
	name, _, _ := strings.Cut(server, "/")
	return name
}

// note is what sqlstore does when another server answers.
func (w *counterWorld) note() bool {
	fresh := w.present && w.now.Sub(w.witness.beat) <= witnessFresh || w.mutant == staleMark
	if w.present && w.now.Before(w.away) {
		return false // it is waited for
	}
	seen := w.seen
	if w.mutant == memoryless {
		seen = model.ServerTimes{}
	}
	next, gap := w.db.Note(seen, w.clock(), machine(w.db.server) == machine(w.server))
	if w.mutant == noHeartbeat {
		gap.Known = w.db.row.At
	}
	doubt := gap.Doubt(w.rate, w.db.row.At, w.db.row.Doubt)
	if w.mutant == oneRate {
		doubt = w.db.row.Doubt + (doubt-w.db.row.Doubt)/2
	}
	w.db.row.Doubt, w.db.row.JumpFrom = doubt, next.JumpFrom
	if !fresh {
		w.db.row.Life = ""
	}
	w.db.server, w.db.ServerTimes = w.server, next
	return true
}

func (w *counterWorld) take() {
	if w.db.server != w.server && !w.note() {
		return
	}
	w.met, w.seen = true, w.db.ServerTimes
	known := model.Evidence{}
	if w.present {
		switch {
		case w.now.After(w.away):
			known = model.Evidence{Floor: w.witness.mark, Mark: w.witness.mark, Life: w.witness.life}
			w.answered = w.now
		case w.now.Sub(w.answered) <= witnessFresh:
			return
		}
	}
	row := w.db.row
	if w.mutant == noBucket {
		row.Rate = 0
	}
	if w.mutant == noWait {
		row.JumpFrom = time.Time{}
	}
	if w.mutant == anyLife && known.Life != "" {
		row.Life = known.Life
	}
	want := 1 + w.rng.Int64N(2*w.rate)
	var (
		first, n int64
		next     model.Counter
		err      error
	)
	if w.choose == nil {
		first, n, next, err = row.Take(known, want, 1<<55, w.clock())
	} else {
		first, n, next, err = w.choose(row, known, want)
	}
	if err != nil {
		return
	}
	if row.Doubt > 0 && first > row.Last+1 {
		w.jumps++
	}
	next.Rate = w.rate
	next.Life = ""
	if known.Life != "" {
		if w.mutant != lateMark || w.rng.IntN(10) > 0 {
			w.witness.mark = max(w.witness.mark, next.Last)
		}
		next.Life = known.Life
	}
	if w.rng.IntN(30) == 0 {
		return // the commit failed: a gap
	}
	w.db.row = next
	w.issued = append(w.issued, model.Segment{First: first, Last: first + n - 1})
	if w.used != nil {
		w.used(first, n)
	}
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

func runCounterWorld(seed uint64, m counterMutant) (w *counterWorld, err error) {
	w = newCounterWorld(seed, m)
	for range 600 {
		w.step()
	}
	return w, w.check()
}

// Whatever the database and its witness do, alone, together or in a row, no number is
// handed out twice.
func TestSimulationCounter(t *testing.T) {
	var segments, jumps atomic.Int64
	worlds := *counterWorlds
	simtest.Run(t, worlds, func(_ *testing.T, seed uint64) error {
		w, err := runCounterWorld(seed, wholeMechanism)
		segments.Add(int64(len(w.issued)))
		jumps.Add(int64(w.jumps))
		return err
	})
	t.Logf("%d worlds: %d segments, %d jumps, no overlap", worlds, segments.Load(), jumps.Load())
	if segments.Load() < 200*int64(worlds) || jumps.Load() < int64(worlds) {
		t.Error("the simulation stands still")
	}
}

// Each part that is left out shows.
func TestSimulationCounterCatchesMutants(t *testing.T) {
	simtest.Catches(t, 5000, []counterMutant{noBucket, noHeartbeat, noWait, oneRate, identityIgnored, staleMark,
		lateMark, anyLife, memoryless, sameLife},
		func(_ *testing.T, seed uint64, m counterMutant) error {
			_, err := runCounterWorld(seed, m)
			return err
		})
}
