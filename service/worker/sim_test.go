package worker

import (
	"fmt"
	"sync/atomic"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

func TestSimulation(t *testing.T) {
	worlds := uint64(10_000)
	if check.Race { // it finds nothing in a single goroutine
		worlds = 500
	}
	var issued atomic.Int64
	simtest.Run(t, worlds, func(_ *testing.T, seed uint64) error {
		w := newWorld(seed, noMutant)
		if err := w.run(); err != nil {
			return fmt.Errorf("%w\n%s", err, w.story())
		}
		issued.Add(int64(w.issued))
		return nil
	})
	t.Logf("%d worlds, %d IDs, none twice", worlds, issued.Load())
	if least := int64(worlds) * 100; issued.Load() < least {
		t.Errorf("%d IDs were issued, want at least %d: the simulation stands still", issued.Load(), least)
	}
}

// Each guard that is left out must let an ID repeat in some world.
func TestSimulationCatchesMutants(t *testing.T) {
	if check.Race {
		t.Skip("make simulate runs it, ten times faster")
	}
	simtest.Catches(t, 30_000, []mutant{noBound, noAfter, reportsInstead, trustsItself, leafFallback, noVouch,
		serverIgnored, noDoubt, noClaims, noWait, addressBelieved},
		func(_ *testing.T, seed uint64, m mutant) error { return newWorld(seed, m).run() })
}
