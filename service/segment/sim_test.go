package segment_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
)

// simSeed runs one seed of the simulation again. The faults are the same; which
// of the goroutines that are due at one instant runs first is not.
//
//nolint:gochecknoglobals // a flag
var simSeed = flag.Uint64("sim.seed", 0, "run this seed of TestSimulation only, a hundred times")

// simSeeds is how many worlds are simulated; under the race detector fewer.
func simSeeds() uint64 {
	if raceEnabled {
		return 200
	}
	return 2000
}

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		for range 100 {
			if _, err := simulate(t, *simSeed, faithful); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	workers := uint64(runtime.GOMAXPROCS(0))
	for i := range workers {
		t.Run(fmt.Sprintf("worker %d", i), func(t *testing.T) {
			t.Parallel()
			issued := 0
			for seed := 1 + i; seed <= simSeeds(); seed += workers {
				n, err := simulate(t, seed, faithful)
				if err != nil {
					t.Fatalf("seed %d: %v\nrun it again: go test ./service/segment -run 'TestSimulation$' -sim.seed %d", seed, err, seed)
				}
				issued += n
			}
			if least := 100 * int(simSeeds()/workers); issued < least {
				t.Errorf("%d IDs were issued, want at least %d: the simulation stands still", issued, least)
			}
			t.Logf("%d IDs, none twice", issued)
		})
	}
}

// A table that breaks its promise must be noticed in some world, or the
// simulation proves nothing.
func TestSimulationCatchesMutants(t *testing.T) {
	for _, m := range []mutant{ignoresFloor, rereadsStep, reusesRolledBack, sharesRange, noDoubt, noWait} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 2000; seed++ {
				if _, err := simulate(t, seed, m); err != nil {
					t.Logf("caught: seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no world noticed")
		})
	}
}

// simulate runs one world and says how many IDs it issued, and what was wrong.
func simulate(t *testing.T, seed uint64, m mutant) (issued int, err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed, m)
		w.run(t)
		issued, err = w.check()
	})
	return issued, err
}
