package queue

import (
	"fmt"
	"sync/atomic"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

func TestSimulation(t *testing.T) {
	worlds := uint64(10_000)
	if check.Race { // it finds nothing in a coroutine
		worlds = 500
	}
	var issued, jumps atomic.Int64
	simtest.Run(t, worlds, func(_ *testing.T, seed uint64) error {
		w := newWorld(seed, noMutant)
		if err := w.run(); err != nil {
			return fmt.Errorf("%w after %v", err, w.faults)
		}
		issued.Add(int64(len(w.issued)))
		jumps.Add(int64(w.jumps))
		return nil
	})
	t.Logf("%d worlds, %d IDs, %d jumps, none twice", worlds, issued.Load(), jumps.Load())
	if least := int64(worlds) * 50; issued.Load() < least {
		t.Errorf("%d IDs were issued, want at least %d: the simulation stands still", issued.Load(), least)
	}
}

// Each guard that is left out must let an ID repeat in some world. The bounds of a jump
// have a simulation of their own, in model/counter_sim_test.go, which catches what is
// left out of them. That a lowered max_id is lifted shows TestDirectedMaxIDRolledBack.
func TestSimulationCatchesMutants(t *testing.T) {
	if check.Race {
		t.Skip("make simulate runs it, ten times faster")
	}
	simtest.Catches(t, 30_000, []mutant{noHistoryCheck, runIDForHistory, pushRetries, noHighWater, noHeartbeat,
		noWait, identityIgnored, unclearCommit, noRowLock, partsUnmarked, gapsOverlooked},
		func(_ *testing.T, seed uint64, m mutant) error { return newWorld(seed, m).run() })
}
