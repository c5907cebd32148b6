// Package simtest runs simulations. A world is a simulated deployment, all of whose
// chances come from one seed; it ends with an error if it broke what is promised. A
// mutant is a world in which one guard of the design is left out.
package simtest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
)

//nolint:gochecknoglobals // a flag
var seed = flag.Uint64("sim.seed", 0, "run this seed of TestSimulation only, a hundred times")

// Run runs the worlds of the seeds 1 to worlds, on all cores, until one fails.
// With -sim.seed it runs that one, a hundred times, and ends the test: where a world has
// goroutines, the seed does not say which of them comes first.
func Run(t *testing.T, worlds uint64, world func(t *testing.T, seed uint64) error) {
	t.Helper()
	if *seed != 0 {
		for range 100 {
			if err := world(t, *seed); err != nil {
				t.Fatalf("seed %d: %v", *seed, err)
			}
		}
		t.Skipf("seed %d: nothing was found", *seed)
	}
	var next atomic.Uint64
	var failed atomic.Bool
	folder, _ := os.Getwd() // the package's
	replay := "go test " + folder + " -run '" + t.Name() + "$' -sim.seed"
	t.Run("worlds", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(core), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1); n <= worlds && !failed.Load(); n = next.Add(1) {
					if err := world(t, n); err != nil {
						failed.Store(true)
						t.Fatalf("seed %d: %v\nreplay it: %s %d", n, err, replay, n)
					}
				}
			})
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// Catches fails for each mutant that none of the worlds of the seeds 1 to worlds notices.
func Catches[M ~string](t *testing.T, worlds uint64, mutants []M, world func(*testing.T, uint64, M) error) {
	t.Helper()
	for _, m := range mutants {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			for n := range worlds {
				if err := world(t, n+1, m); err != nil {
					t.Logf("caught: seed %d: %v", n+1, err)
					return
				}
			}
			t.Error("no world noticed")
		})
	}
}
