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

// numberWorld is a counterWorld whose numbers are shown with periods of a minute. Its
// replicas' clocks differ from the database's by up to model.MaxClockApart.
type numberWorld struct {
	*counterWorld
	numbers *model.Numbers
	width   int64 // most of a sequence; 0 is no bound
	local   time.Time
	shown   map[int64][]model.Segment // sequences by period
	wrong   error
}

func newNumberWorld(seed uint64) *numberWorld {
	numbering := model.Numbering{Pattern: "{yyyyMMdd}{seq:9}", Reset: model.ResetDay}
	w := &numberWorld{counterWorld: newCounterWorld(seed), shown: map[int64][]model.Segment{}}
	if seed%5 == 0 {
		numbering.Pattern, numbering.Overflow, w.width = "{yyyyMMdd}{seq:5}", model.OverflowRefuse, 99_999
	}
	w.numbers = model.NumbersOfMinutes(numbering, noon)
	w.row.counter.PeriodBits = w.numbers.Bits()
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
	s, next, err := model.TagRequest{Step: want, Numbers: w.numbers}.Next(row, 1, floor, w.Clock(), w.local)
	if err == nil && row.Doubt == 0 && floor <= row.Last && p > w.numbers.PeriodOf(row.Last) &&
		w.numbers.Sequence(s.First) != 1 {
		w.wrong = fmt.Errorf("period %d begins with %d", p, w.numbers.Sequence(s.First))
	}
	return s.First, s.End - s.First, next, err
}

// used notes the texts of numbers.
func (w *numberWorld) used(first, n int64) {
	p, sequence := w.numbers.PeriodOf(first), w.numbers.Sequence(first)
	now, _ := w.numbers.Period(w.local)
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

// Whatever the database, its witness and the clocks do, no text is issued twice.
func TestSimulationNumbers(t *testing.T) {
	check.Deep(t)
	simtest.Simulation[string]{
		Worlds: *counterWorlds, Least: map[string]float64{"segments": 200, "periods": 5, "jumps": 1},
		World: func(_ *testing.T, seed uint64, _ string) (simtest.Tally, error) {
			w := newNumberWorld(seed)
			for range 600 {
				w.step()
			}
			return simtest.Tally{"segments": len(w.issued), "periods": len(w.shown), "jumps": w.jumps}, w.check()
		},
	}.Run(t)
}
