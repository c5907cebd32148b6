package queue_test

import (
	"context"
	"testing"

	"shardid/model"
	"shardid/service/queue"
)

// BenchmarkNext is a caller's part: the IDs are mostly held, and a goroutine pops and
// refills from a store in memory.
func BenchmarkNext(b *testing.B) {
	serve := func(b *testing.B) replica {
		db := newTable()
		db.provision(1, 1_000_000, model.Limit{Policy: model.LimitReject})
		return ready(b, newLists(), db, func(o *queue.Options) { o.MaxStep, o.PrefetchMax = 1_000_000, 10_000 })
	}
	next := func(b *testing.B, r replica, n int, dst []int64) {
		if ids, err := r.Next(context.Background(), 1, "alice", n, dst[:0]); err != nil || len(ids) != n {
			b.Errorf("%d IDs, %v", len(ids), err)
		}
	}
	for name, n := range map[string]int{"one": 1, "hundred": 100} {
		b.Run(name+"/one_goroutine", func(b *testing.B) {
			r, dst := serve(b), make([]int64, n)
			b.ReportAllocs()
			for b.Loop() {
				next(b, r, n, dst)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			r := serve(b)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				dst := make([]int64, n)
				for pb.Next() {
					next(b, r, n, dst)
				}
			})
		})
	}
}
