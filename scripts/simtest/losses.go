package simtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
)

// Losing is a service that takes segments of numbers, and the way to break its stores.
type Losing struct {
	Left  func() int64  // numbers that its counter has left
	Few   int64         // a fault may cost them beside its share of what is left
	Soon  time.Duration // it serves again so long after a fault
	Take  func(ctx context.Context, n int) error
	Wrong func() error // what it reports
	// Break lets every segment for whose length fails is true get no answer; nil mends it.
	Break func(fails func(length int64) bool)
}

// LosingCallers at most ask at once while a fault lasts.
const LosingCallers = 2

// LosingBatch is how many numbers one of them asks for, at most.
const LosingBatch = 3

// Losses runs worlds in which segments get lost. Whatever fails on the way of a segment, and
// for however long: a service loses at most a hundredth of what is left at once, half as much
// one by one, a few numbers, and not more than twice what arrives meanwhile; and it goes on soon
// after. A database that heeds no care, which build makes if it is careless, must be noticed in
// some world.
func Losses(t *testing.T, worlds uint64, build func(t *testing.T, rng *rand.Rand, careless bool) Losing) {
	t.Helper()
	if testing.Short() {
		worlds = 100
	}
	losses := Simulation[string]{
		Worlds: worlds, Racing: 100, Seeds: 300, Mutants: map[string]uint64{"care is ignored": 0},
		World: func(t *testing.T, seed uint64, mutant string) (_ Tally, err error) {
			t.Helper()
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				err = build(t, rng, mutant != "").sufferAll(t, rng)
			})
			return nil, err
		},
	}
	losses.Run(t)
	t.Run("mutants", losses.Catches)
}

// fault is what fails: so many in a hundred of the segments that are not shorter.
type fault struct {
	from, most int64
	long       time.Duration
}

// odd says that empty segments may go through and others not: what shows that these do costs
// one.
func (f fault) odd() bool { return f.from > 0 || f.most < 100 }

func (l Losing) sufferAll(t *testing.T, rng *rand.Rand) error {
	for range 1 + rng.IntN(3) {
		f := fault{most: 100, long: time.Duration(1+rng.IntN(60)) * time.Second << rng.IntN(7)}
		switch rng.IntN(6) {
		case 0:
			f.most = 10 + rng.Int64N(80)
		case 1:
			f.from = 1
		case 2:
			f.from = 1 << rng.IntN(12)
		}
		if err := l.suffer(t, rng, f); err != nil {
			return fmt.Errorf("%+v: %w", f, err)
		}
		if f.odd() { // it may still have debts
			break
		}
	}
	return nil
}

// suffer lets a fault come and go while callers ask, or none does.
func (l Losing) suffer(t *testing.T, rng *rand.Rand, f fault) error {
	chance := rand.New(rand.NewPCG(rng.Uint64(), 2))
	var mu sync.Mutex
	left, lost, arrived := l.Left(), int64(0), int64(0)
	l.Break(func(length int64) bool {
		mu.Lock()
		defer mu.Unlock()
		if length >= f.from && chance.Int64N(100) < f.most {
			lost += length
			return true
		}
		arrived += length
		return false
	})
	began := time.Now()
	l.ask(t, rng, f.long)
	lasted := time.Since(began)
	l.Break(nil)
	mu.Lock()
	defer mu.Unlock()
	if most := left/100 + left/200 + l.Few + 2*arrived; lost > most {
		return fmt.Errorf("%d of %d numbers were lost, %d arrived", lost, left, arrived)
	}
	patience := l.Soon
	if f.odd() && 300*lost > left { // its pauses may have grown on
		patience += lasted
	}
	for began = time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := cmp.Or(l.Take(t.Context(), 1), l.Wrong())
		if err == nil || errors.Is(err, model.ErrLimitReached) {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%v after its end: %w", time.Since(began), err)
		}
	}
}

// ask has callers ask for so long, or none.
func (l Losing) ask(t *testing.T, rng *rand.Rand, long time.Duration) {
	ctx, end := context.WithTimeout(t.Context(), long)
	defer end()
	var callers sync.WaitGroup
	for range rng.IntN(LosingCallers + 1) {
		n, pause := 1+rng.IntN(LosingBatch), time.Duration(1+rng.IntN(30_000))*time.Millisecond
		callers.Go(func() {
			for ctx.Err() == nil {
				_ = l.Take(ctx, n) // whoever gets nothing asks again, too
				time.Sleep(pause)
			}
		})
	}
	callers.Wait()
	<-ctx.Done()
}
