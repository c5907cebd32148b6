// Package latency counts how long things take, cheaply enough for every request.
package latency

import (
	"math"
	"sync/atomic"
	"time"
)

// Buckets is how many buckets there are; the last has no upper bound.
const Buckets = 17

// Bounds are the upper bounds, included, of all buckets but the last: from 50 µs,
// where an ID that the process holds is answered, to 5 s, which is longer than any
// timeout of the default configuration.
func Bounds() [Buckets - 1]time.Duration {
	const us, ms = time.Microsecond, time.Millisecond
	return [...]time.Duration{
		50 * us, 100 * us, 250 * us, 500 * us, ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms,
		50 * ms, 100 * ms, 250 * ms, 500 * ms, time.Second, 2500 * ms, 5 * time.Second,
	}
}

// bounds is Bounds, made once; nothing changes it.
var bounds = Bounds()

// Histogram counts durations. The zero value is empty and ready. Safe for concurrent
// use; Observe allocates nothing and never waits.
type Histogram struct {
	counts [Buckets]atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

// Observe counts a duration. A negative one counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Read returns the counts; they are read one by one, not at one instant.
func (h *Histogram) Read() Reading {
	r := Reading{Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		r.Counts[i] = h.counts[i].Load()
	}
	return r
}

// Reading is what a Histogram had counted at some time.
type Reading struct {
	Counts [Buckets]int64 // by bucket; not cumulative
	Sum    time.Duration  // of all durations
}

// Count is how many durations were counted.
func (r Reading) Count() (n int64) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// Plus is what both readings counted.
func (r Reading) Plus(other Reading) Reading {
	for i, c := range other.Counts {
		r.Counts[i] += c
	}
	r.Sum += other.Sum
	return r
}

// Since is what was counted after an earlier reading of the same histogram.
func (r Reading) Since(earlier Reading) Reading {
	for i, c := range earlier.Counts {
		r.Counts[i] -= c
	}
	r.Sum -= earlier.Sum
	return r
}

// Quantile is the duration in seconds that the share q, in 0…1, did not exceed. Within
// a bucket it is interpolated, as Prometheus does; beyond the last bound it is that
// bound. NaN when nothing was counted.
func (r Reading) Quantile(q float64) float64 {
	rank, below := q*float64(r.Count()), 0.0
	for i, c := range r.Counts {
		if c == 0 || below+float64(c) < rank {
			below += float64(c)
			continue
		}
		if i == len(bounds) {
			return bounds[i-1].Seconds()
		}
		low := 0.0
		if i > 0 {
			low = bounds[i-1].Seconds()
		}
		return low + (bounds[i].Seconds()-low)*(rank-below)/float64(c)
	}
	return math.NaN()
}
