package segment_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/service/segment"
)

// What issuing costs, beside a bare atomic add: one goroutine, and all of them on
// one tag.
func BenchmarkIssue(b *testing.B) {
	db := newTable(1_000_000, "orders", "users", "payments")
	r := ready(b, db)
	var counter atomic.Int64
	for _, c := range []struct {
		name string
		call func(dst []int64) error
	}{
		{"atomic add", func([]int64) error { counter.Add(1); return nil }},
		{"key", func(dst []int64) error { _, err := r.Next(b.Context(), "orders", 1, dst); return err }},
		{"key 100", func(dst []int64) error { _, err := r.Next(b.Context(), "orders", 100, dst); return err }},
	} {
		b.Run(c.name+"/one goroutine", func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]int64, 0, 100)
			for b.Loop() {
				if err := c.call(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				dst := make([]int64, 0, 100)
				for p.Next() {
					if err := c.call(dst); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// 64 callers, a database that takes 30 ms, step 2000: the longest a caller waited.
// They give way after each call, or they would wait for each other's time slices
// and not for the database.
func BenchmarkSlowDatabase(b *testing.B) {
	db := newTable(2000, "orders")
	r := ready(b, db, func(o *segment.Options) { o.Timeout = 5 * time.Second })
	db.set(func(db *table) { db.delay = 30 * time.Millisecond })
	var longest atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for range b.N {
				began := time.Now()
				if _, err := r.one("orders"); err != nil {
					b.Error(err)
					return
				}
				for d, old := int64(time.Since(began)), longest.Load(); d > old && !longest.CompareAndSwap(old, d); old = longest.Load() {
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(longest.Load())/1e6, "ms-longest")
	b.ReportMetric(float64(b.N)*64/b.Elapsed().Seconds(), "IDs/s")
}
