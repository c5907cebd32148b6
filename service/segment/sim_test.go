package segment_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

func TestSimulation(t *testing.T) {
	worlds := uint64(2000)
	if check.Race {
		worlds = 200
	}
	var issued atomic.Int64
	simtest.Run(t, worlds, func(t *testing.T, seed uint64) error {
		n, err := simulate(t, seed, faithful)
		issued.Add(int64(n))
		return err
	})
	t.Logf("%d worlds, %d IDs, none twice", worlds, issued.Load())
	if least := int64(worlds) * 100; issued.Load() < least {
		t.Errorf("%d IDs were issued, want at least %d: the simulation stands still", issued.Load(), least)
	}
}

// A table that breaks its promise must be noticed in some world, or the simulation
// proves nothing.
func TestSimulationCatchesMutants(t *testing.T) {
	simtest.Catches(t, 2000, []mutant{ignoresFloor, rereadsStep, reusesRolledBack, sharesRange, noDoubt, noWait},
		func(t *testing.T, seed uint64, m mutant) error {
			_, err := simulate(t, seed, m)
			return err
		})
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
