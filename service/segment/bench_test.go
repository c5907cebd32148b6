package segment_test

import (
	"sync/atomic"
	"testing"

	"shardid/model"
)

// What issuing costs, beside a bare atomic add: one goroutine, and all of them on
// one tag.
func BenchmarkIssue(b *testing.B) {
	db := newTable(1_000_000, "orders")
	r := ready(b, db)
	var counter atomic.Int64
	for _, c := range []struct {
		name string
		call func(dst []int64) error
	}{
		{"atomic add", func([]int64) error { counter.Add(1); return nil }},
		{"key", func(dst []int64) error {
			_, err := r.Next(b.Context(), "orders", model.ShardKey{}, 1, dst)
			return err
		}},
	} {
		b.Run(c.name+"/one goroutine", func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]int64, 0, 1)
			for b.Loop() {
				if err := c.call(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				dst := make([]int64, 0, 1)
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
