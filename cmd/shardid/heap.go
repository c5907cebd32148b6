package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapRoom is how far the heap grows, at least, between two garbage collections,
// in bytes. Go's default lets it double, which for the few MiB that shardid holds
// means a collection for every few thousand requests. At maxGCPercent the room is
// less, so that a small process stays small.
const (
	heapRoom     = 12 << 20
	maxGCPercent = 400
)

// widenGC spaces out the garbage collections of a small heap, unless the operator
// says how they are to be spaced. GOMEMLIMIT holds beside it.
func widenGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	followHeap(&pacer{percent: 100})
}

// pacer knows the present GC percentage.
type pacer struct{ percent int }

// followHeap adjusts the percentage to what the last collection left, now and
// after each collection: the cleanup of an object that nothing holds is then due.
func followHeap(p *pacer) {
	p.adjust(liveHeap())
	runtime.AddCleanup(new([16]byte), followHeap, p)
}

// adjust sets a percentage that differs enough; setting one stops the world.
func (p *pacer) adjust(live uint64) {
	want := gcPercent(live)
	if d := want - p.percent; d > -20 && d < 20 {
		return
	}
	p.percent = want
	debug.SetGCPercent(want)
}

// gcPercent gives a heap with that many live bytes its room.
func gcPercent(live uint64) int {
	return int(min(max(100, heapRoom*100/max(live, 1)), maxGCPercent))
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
