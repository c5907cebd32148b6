package queue

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// simSeed replays one seed of the simulation.
//
//nolint:gochecknoglobals // a flag
var simSeed = flag.Uint64("sim.seed", 0, "replay this seed of TestSimulation only")

// simSeeds is how many worlds are simulated; under the race detector, which
// makes each ten times slower and finds nothing in a coroutine, fewer.
func simSeeds() uint64 {
	if raceEnabled {
		return 500
	}
	return 10_000
}

func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		w := newWorld(*simSeed, noMutant)
		if err := w.run(); err != nil {
			t.Errorf("seed %d: %v after %v", *simSeed, err, w.faults)
		}
		return
	}
	var issued, jumps atomic.Int64
	faults := firstFailure(noMutant, simSeeds(), func(w *world) {
		issued.Add(int64(len(w.issued)))
		jumps.Add(int64(w.jumps))
	})
	if faults != nil {
		t.Fatalf("%v\nreplay it: go test ./service/queue -run 'TestSimulation$' -sim.seed %d", faults, faults.seed)
	}
	t.Logf("%d worlds, %d IDs, %d jumps, none twice", simSeeds(), issued.Load(), jumps.Load())
	if least := int64(simSeeds()) * 50; issued.Load() < least {
		t.Errorf("%d IDs were issued, want at least %d: the simulation stands still", issued.Load(), least)
	}
}

// Each guard that is left out must let an ID repeat in some world. The bounds of a jump
// have a simulation of their own, in model/counter_sim_test.go, which catches what is
// left out of them. That a lowered max_id is lifted shows TestDirectedMaxIDRolledBack.
func TestSimulationCatchesMutants(t *testing.T) {
	if raceEnabled {
		t.Skip("make simulate runs it, ten times faster")
	}
	for _, m := range []mutant{noHistoryCheck, runIDForHistory, pushRetries, noHighWater, noHeartbeat, noWait, identityIgnored, unclearCommit, noRowLock, partsUnmarked, gapsOverlooked} {
		t.Run(string(m), func(t *testing.T) {
			failure := firstFailure(m, 30_000, func(*world) {})
			if failure == nil {
				t.Fatal("no world noticed")
			}
			t.Logf("caught: %v", failure)
		})
	}
}

// simFailure is a violation with the seed that leads to it.
type simFailure struct {
	seed uint64
	err  error
}

func (f *simFailure) String() string { return fmt.Sprintf("seed %d: %v", f.seed, f.err) }

// firstFailure simulates worlds 1…seeds and returns the failure of the lowest
// seed, or nil.
func firstFailure(m mutant, seeds uint64, done func(*world)) *simFailure {
	var next atomic.Uint64
	var mu sync.Mutex
	var first *simFailure
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1); seed <= seeds; seed = next.Add(1) {
				w := newWorld(seed, m)
				err := w.run()
				mu.Lock()
				if err != nil && (first == nil || seed < first.seed) {
					first = &simFailure{seed, err}
				}
				stop := first != nil
				done(w)
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	workers.Wait()
	return first
}
