//go:build unix

package bench

import (
	"context"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"shardid/service/snowflake"
)

// BenchmarkSnowflake is the real generator with the real clock.
func BenchmarkSnowflake(b *testing.B) {
	b.Run("saturated", func(b *testing.B) {
		s := snowflake.NewService(newGenerator(b), time.Second, func() string { return "" }, func(context.Context) bool { return false })
		ids := make([]int64, 0, 1)
		measureCap(b, 1, func() {
			if _, err := s.Next(b.Context(), 1, ids); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("batches", benchmarkBatches)
	b.Run("below the cap", benchmarkBelowCap)
}

// benchmarkBatches takes whole milliseconds.
func benchmarkBatches(b *testing.B) {
	g, whole := newGenerator(b), 0
	measureCap(b, 4096, func() {
		for {
			_, got, wait, err := g.Take(4096)
			if err != nil {
				b.Fatal(err)
			}
			if got > 0 {
				whole += got / 4096
				return
			}
			time.Sleep(wait)
		}
	})
	b.ReportMetric(float64(whole)/float64(b.N), "in-one-step")
}

// benchmarkBelowCap takes 1024 in each millisecond and sleeps for the rest of it,
// which does not count. It reports the median of the milliseconds: in some of them
// another process had the core.
func benchmarkBelowCap(b *testing.B) {
	g := newGenerator(b)
	var busy []float64 // ns per ID
	for left := b.N; left > 0; left -= 1024 {
		now := time.Now()
		time.Sleep(now.Truncate(time.Millisecond).Add(time.Millisecond).Sub(now))
		n := min(left, 1024)
		began := time.Now()
		for range n {
			if _, got, _, err := g.Take(1); err != nil || got != 1 {
				b.Fatal(got, err)
			}
		}
		busy = append(busy, float64(time.Since(began))/float64(n))
	}
	slices.Sort(busy)
	b.ReportMetric(busy[len(busy)/2], "busy-ns/ID")
}

// measureCap reports which share of the format's cap was reached by calls for n IDs
// each, and how many cores it took.
func measureCap(b *testing.B, n int, call func()) {
	began, before := time.Now(), cpuTime()
	for range b.N {
		call()
	}
	took := time.Since(began)
	b.ReportMetric(float64(b.N*n)/4096/max(1, float64(took)/1e6), "of-cap")
	b.ReportMetric(float64(cpuTime()-before)/float64(took), "cores")
}

// newGenerator is one with a worker ID for all of time.
func newGenerator(b *testing.B) *snowflake.Generator {
	b.Helper()
	g, err := snowflake.New(snowflake.Options{EpochMs: 1288834974657, SequenceStart: 100, Tolerance: 5 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	g.Begin(1, 0)
	g.Extend(math.MaxInt64, math.MaxInt64)
	return g
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
