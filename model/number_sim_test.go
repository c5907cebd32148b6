package model_test

import (
	"fmt"
	"sort"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

// numberMutant is a part of business numbers that a world leaves out.
type numberMutant string

const (
	wholeNumbers numberMutant = ""
	shrunkDoubt  numberMutant = "the start of a period counts as a part of a doubt"
	settledDoubt numberMutant = "a mark of a later period shrinks a doubt"
	callersClock numberMutant = "numbers are jumped over in the caller's period"
	endedDoubt   numberMutant = "any new period ends a doubt"
	reopened     numberMutant = "the text shows the caller's period"
	resetLost    numberMutant = "a period continues where the last one ended"
	noWidth      numberMutant = "a number has more digits than it may"
)

// numberWorld is a counterWorld whose numbers are shown with periods of a minute. Its
// replicas' clocks differ from the database's by up to model.MaxClockApart.
type numberWorld struct {
	*counterWorld
	numbers *model.Numbers
	mutant  numberMutant
	width   int64 // most of a sequence; 0 is no bound
	local   time.Time
	shown   map[int64][]model.Segment // sequences by period
	wrong   error
}

func newNumberWorld(seed uint64, m numberMutant) *numberWorld {
	numbering := model.Numbering{Pattern: "{yyyyMMdd}{seq:9}", Reset: model.ResetDay}
	w := &numberWorld{counterWorld: newCounterWorld(seed), mutant: m,
		shown: map[int64][]model.Segment{}}
	if seed%5 == 0 {
		numbering.Pattern, numbering.Overflow, w.width = "{yyyyMMdd}{seq:5}", model.OverflowRefuse, 99_999
	}
	w.numbers = model.NumbersOfMinutes(numbering, noon)
	if m != settledDoubt {
		w.row.counter.PeriodBits = w.numbers.Bits()
	}
	w.counterWorld.choose, w.counterWorld.used = w.choose, w.used
	return w
}

func (w *numberWorld) choose(row model.Counter, floor, want int64) (first, n int64, next model.Counter, err error) {
	apart := model.MaxClockApart
	if w.chance(2) {
		apart = w.upTo(apart)
	}
	if w.chance(2) {
		apart = -apart
	}
	w.local = w.Clock().Add(apart)
	p, _ := w.numbers.Period(w.local)
	if w.mutant != wholeNumbers && w.mutant != reopened && w.mutant != settledDoubt {
		return w.mutated(row, floor, want)
	}
	s, next, err := model.TagRequest{Step: want, Numbers: w.numbers}.Next(row, 1, floor, w.Clock(), w.local)
	if w.mutant == settledDoubt {
		next.PeriodBits = 0
	}
	if err == nil && row.Doubt == 0 && floor <= row.Last && p > w.numbers.PeriodOf(row.Last) &&
		w.numbers.Sequence(s.First) != 1 {
		w.wrong = fmt.Errorf("period %d begins with %d", p, w.numbers.Sequence(s.First))
	}
	return s.First, s.End - s.First, next, err
}

// mutated is what TagRequest.Next does, but for one thing.
func (w *numberWorld) mutated(row model.Counter, floor, want int64) (first, n int64, next model.Counter, err error) {
	at := w.local
	if row.Doubt > 0 && row.JumpFrom.After(at) && w.mutant != callersClock {
		at = row.JumpFrom
	}
	p, _ := w.numbers.Period(at)
	before := w.numbers.PeriodOf(row.Last)
	bits := w.numbers.Bits()
	p = max(p, before, w.numbers.PeriodOf(floor))
	if raised := p<<bits - row.Last; raised > 0 && w.mutant != resetLost {
		row.Last = p << bits
		switch {
		case row.Doubt == 0:
		case w.mutant == shrunkDoubt:
			row.Doubt = max(1, row.Doubt-raised)
		case w.mutant == endedDoubt || w.numbers.Begins(p).After(row.JumpFrom):
			row.Doubt = 0
		}
	}
	limit := w.numbers.Last(p)
	if w.mutant == noWidth {
		limit = p<<bits | (1<<bits - 1)
	}
	if w.mutant == resetLost {
		limit = 1 << 60
	}
	first, n, next, err = row.TakeNumbers(floor, want, limit, w.Clock())
	return first, n, next, err
}

// used notes the texts of numbers.
func (w *numberWorld) used(first, n int64) {
	p, sequence := w.numbers.PeriodOf(first), w.numbers.Sequence(first)
	now, _ := w.numbers.Period(w.local)
	if w.mutant == reopened {
		p = now
	}
	switch {
	case w.wrong != nil:
	case p < now:
		w.wrong = fmt.Errorf("numbers of period %d in period %d", p, now)
	case w.width > 0 && sequence+n-1 > w.width:
		w.wrong = fmt.Errorf("%d…%d has too many digits", sequence, sequence+n-1)
	}
	w.shown[p] = append(w.shown[p], model.Segment{First: sequence, Last: sequence + n - 1})
}

func (w *numberWorld) check() error {
	for p, issued := range w.shown {
		sort.Slice(issued, func(i, j int) bool { return issued[i].First < issued[j].First })
		for i := 1; i < len(issued); i++ {
			if issued[i].First <= issued[i-1].Last {
				return fmt.Errorf("in period %d %v and %v overlap", p, issued[i-1], issued[i])
			}
		}
	}
	return w.wrong
}

// Whatever the database, its witness and the clocks do, no text is issued twice. Each part
// that is left out shows.
func numberSimulation() simtest.Simulation[numberMutant] {
	return simtest.Simulation[numberMutant]{
		Worlds: *counterWorlds, Seeds: 5000, Least: map[string]float64{"segments": 200, "periods": 5, "jumps": 1},
		Mutants: map[numberMutant]uint64{
			shrunkDoubt:  1,
			settledDoubt: 141,
			callersClock: 1042,
			endedDoubt:   1,
			reopened:     1,
			resetLost:    1,
			noWidth:      15,
		},
		World: func(_ *testing.T, seed uint64, m numberMutant) (simtest.Tally, error) {
			w := newNumberWorld(seed, m)
			for range 600 {
				w.step()
			}
			return simtest.Tally{"segments": len(w.issued), "periods": len(w.shown), "jumps": w.jumps}, w.check()
		},
	}
}

func TestSimulationNumbers(t *testing.T) {
	check.Deep(t)
	numberSimulation().Run(t)
}
func TestSimulationNumbersCatchesMutants(t *testing.T) {
	check.Deep(t)
	numberSimulation().Catches(t)
}
