package latency

import (
	"math"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bound belongs to the bucket below it, as Prometheus' le says.
func TestObserveFindsTheBucket(t *testing.T) {
	for i, bound := range append([]time.Duration{-time.Second}, bounds[:]...) {
		for d, want := range map[time.Duration]int{bound: max(i-1, 0), bound + 1: max(i, 0)} {
			var h Histogram
			h.Observe(d)
			r := h.Read()
			if r.Counts[want] != 1 || r.Count() != 1 || r.Sum != max(d, 0) {
				t.Errorf("%v is counted in %v, want bucket %d; sum %v", d, r.Counts, want, r.Sum)
			}
		}
	}
}

func TestReadings(t *testing.T) {
	var h Histogram
	h.Observe(time.Millisecond)
	before := h.Read()
	h.Observe(time.Millisecond)
	h.Observe(time.Minute)
	diff := h.Read().Since(before)
	if diff.Counts[4] != 1 || diff.Counts[Buckets-1] != 1 || diff.Count() != 2 ||
		diff.Sum != time.Minute+time.Millisecond {
		t.Errorf("since: %+v", diff)
	}
	if both := diff.Plus(before); both != h.Read() {
		t.Errorf("plus: %+v", both)
	}
}

func TestQuantile(t *testing.T) {
	of := func(counts map[time.Duration]int) Reading {
		var h Histogram
		for d, n := range counts {
			for range n {
				h.Observe(d)
			}
		}
		return h.Read()
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		counts map[time.Duration]int
		q      float64
		want   float64
	}{
		"half of the first bucket": {map[time.Duration]int{time.Microsecond: 100}, 0.5, 25e-6},
		"all of it":                {map[time.Duration]int{time.Microsecond: 100}, 1, 50e-6},
		"a later bucket":           {map[time.Duration]int{time.Microsecond: 90, 8 * ms: 10}, 0.95, 7.5e-3},
		"its lower end":            {map[time.Duration]int{time.Microsecond: 90, 8 * ms: 10}, 0.9, 50e-6},
		"beyond the last bound":    {map[time.Duration]int{time.Hour: 1}, 0.5, 5},
	} {
		if got := of(c.counts).Quantile(c.q); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := (Reading{}).Quantile(0.99); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestObserveFromManyGoroutines(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				h.Observe(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if r := h.Read(); r.Count() != 8000 || r.Sum != 8*time.Second {
		t.Errorf("%+v", r)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRequest is what a request pays: two readings of the monotonic clock and a
// count.
func BenchmarkRequest(b *testing.B) {
	var h Histogram
	start := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		began := time.Since(start)
		h.Observe(time.Since(start) - began)
	}
}
