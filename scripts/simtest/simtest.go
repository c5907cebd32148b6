// Package simtest runs simulations. A world is a simulated deployment, all of whose
// chances come from one seed; it ends with an error if it broke what is promised. A
// mutant is a world in which one guard of the design is left out.
package simtest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"shardid/scripts/check"
)

//nolint:gochecknoglobals // a flag
var seed = flag.Uint64("sim.seed", 0, "run this seed of TestSimulation only, a hundred times")

// Tally counts what worlds did, such as the IDs that they issued.
type Tally map[string]int

// Simulation is a kind of world. Its mutants are those that it has to notice.
type Simulation[M ~string] struct {
	Worlds  uint64             // of the seeds 1 to this
	Mutants map[M]uint64       // each with the seed of a world that notices it
	Least   map[string]float64 // what a world does on average, at least: with less the simulation stands still
	// World runs one, without a mutant for "".
	World func(t *testing.T, seed uint64, mutant M) (Tally, error)
}

// Run runs the worlds without a mutant, on all cores, until one fails; without DEEP=1 a thousand of them and those that
// notice the mutants, under the race detector a hundred.
// With -sim.seed it runs that one, a hundred times, and ends the test: where a world has
// goroutines, the seed does not say which of them comes first.
func (s Simulation[M]) Run(t *testing.T) {
	t.Helper()
	if os.Getenv("DEEP") == "" {
		s.Worlds = min(s.Worlds, 1000)
	}
	if check.Race() {
		s.Worlds = min(s.Worlds, 100)
	}
	if *seed != 0 {
		for range 100 {
			if _, err := s.World(t, *seed, ""); err != nil {
				t.Fatalf("seed %d: %v", *seed, err)
			}
		}
		t.Skipf("seed %d: nothing was found", *seed)
	}
	done := s.all(t)
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d worlds, nothing was found: %v", s.Worlds, done)
	for what, least := range s.Least {
		if least *= float64(s.Worlds); float64(done[what]) < least {
			t.Errorf("%d %s in %d worlds, want %v: the simulation stands still", done[what], what, s.Worlds, least)
		}
	}
	for m, recorded := range s.Mutants {
		if check.Race() {
			break
		}
		if _, err := s.World(t, recorded, ""); err != nil {
			t.Errorf("seed %d: %v", recorded, err)
		}
		if _, err := s.World(t, recorded, m); err == nil {
			t.Errorf("%s: %s, as %d does not notice it", m, s.noticing(t, m), recorded)
		}
	}
}

// all runs all worlds.
func (s Simulation[M]) all(t *testing.T) Tally {
	var next atomic.Uint64
	var failed atomic.Bool
	var mu sync.Mutex
	sum := Tally{}
	folder, _ := os.Getwd() // the package's
	replay := "go test " + folder + " -run '" + t.Name() + "$' -sim.seed"
	t.Run("worlds", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(core), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1); n <= s.Worlds && !failed.Load(); n = next.Add(1) {
					did, err := s.World(t, n, "")
					if err != nil {
						failed.Store(true)
						t.Fatalf("seed %d: %v\nreplay it: %s %d", n, err, replay, n)
					}
					mu.Lock()
					for what, times := range did {
						sum[what] += times
					}
					mu.Unlock()
				}
			})
		}
	})
	return sum
}

// noticing searches a seed whose world notices a mutant, as a change of what worlds do by chance makes the recorded one
// as good as any other.
func (s Simulation[M]) noticing(t *testing.T, m M) string {
	t.Helper()
	for n := uint64(1); n <= 30_000; n++ {
		if _, err := s.World(t, n, m); err != nil {
			return fmt.Sprint("record the seed ", n)
		}
	}
	return "no world of 30 000 notices the mutant"
}
