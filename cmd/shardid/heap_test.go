package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"shardid/scripts/check"
)

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 400}, {1 << 20, 400}, {3 << 20, 400}, {6 << 20, 200}, {12 << 20, 100}, {1 << 30, 100}} {
		check.Equal(t, gcPercent(c.live), c.want, c.live>>20)
	}
}

// The percentage follows the heap from collection to collection, and not at all
// when the operator sets one.
func TestWidenGC(t *testing.T) {
	const normal = 100
	current := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(normal))
	t.Setenv("GOGC", "100")
	widenGC()
	runtime.GC()
	check.Equal(t, current(), normal, "with GOGC set")
	t.Setenv("GOGC", "")
	widenGC()
	await := func(what string, want func(int) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !want(current()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s: %d %%", what, current())
			}
		}
	}
	func() {
		held := make([]byte, 2*heapRoom)
		await("with a large heap", func(p int) bool { return p == normal })
		runtime.KeepAlive(held)
	}()
	await("with a small one", func(p int) bool { return p > normal+50 })
}
