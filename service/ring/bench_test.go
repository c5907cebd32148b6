package ring_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"shardid/service/ring"
)

// baiduRing is Baidu's default: 8 blocks of 8192, refilled below half.
func baiduRing(tb testing.TB) (*ring.Ring, func()) {
	r, err := ring.New(65536, 32768)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var filler sync.WaitGroup
	filler.Go(func() { fill(ctx, r, 8192) })
	return r, func() { cancel(); filler.Wait() }
}

// fill keeps the ring full with the numbers from 1 on, as the manual has it.
func fill(ctx context.Context, r *ring.Ring, block int64) {
	next := int64(1)
	for {
		for r.Put(next, block) {
			next += block
		}
		select {
		case <-r.Low():
		case <-ctx.Done():
			return
		}
	}
}

// The floor: what sharing one counter costs here.
func BenchmarkAtomicAdd(b *testing.B) {
	var n atomic.Int64
	b.Run("1", func(b *testing.B) {
		for b.Loop() {
			n.Add(1)
		}
	})
	b.Run("2", func(b *testing.B) {
		both(b, func(times int) {
			for range times {
				n.Add(1)
			}
		})
	})
}

// Taking with the background fill included. A take that finds nothing is tried
// again and counted.
func BenchmarkTake(b *testing.B) {
	b.Run("1", func(b *testing.B) {
		r, stop := baiduRing(b)
		defer stop()
		for b.Loop() {
			takeOne(r)
		}
		b.ReportMetric(float64(r.Stats().Refused)/float64(b.N), "refused/op")
	})
	b.Run("2", func(b *testing.B) {
		r, stop := baiduRing(b)
		defer stop()
		both(b, func(times int) {
			for range times {
				takeOne(r)
			}
		})
		b.ReportMetric(float64(r.Stats().Refused)/float64(b.N), "refused/op")
	})
}

func takeOne(r *ring.Ring) {
	for {
		if _, ok := r.Take(); ok {
			return
		}
	}
}

func BenchmarkTakeN100(b *testing.B) {
	r, stop := baiduRing(b)
	defer stop()
	ids := make([]int64, 0, 100)
	for b.Loop() {
		for {
			if _, ok := r.TakeN(100, ids); ok {
				break
			}
		}
	}
}

// Filling is cheap whatever a block holds.
func BenchmarkPut(b *testing.B) {
	r, err := ring.New(8192, 1)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r.Put(1, 8192)
		r.Clear()
	}
}

// both shares b.N between two goroutines.
func both(b *testing.B, f func(times int)) {
	var takers sync.WaitGroup
	for range 2 {
		takers.Go(func() { f(b.N/2 + 1) })
	}
	takers.Wait()
}
