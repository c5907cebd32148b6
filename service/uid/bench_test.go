package uid

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// benchmarked is a service with Baidu's defaults and the fill in its own goroutine.
func benchmarked(b *testing.B, change func(*Options)) *Service {
	opts := options(newTable())
	opts.Layout = model.UIDLayout{TimeBits: 41, WorkerBits: 9, SeqBits: 13, Epoch: time.Now().Add(-time.Hour).Truncate(time.Second)}
	opts.BoostPower, opts.RejectTake = 3, TakeWait
	change(&opts)
	s, err := New(opts)
	check.Must(b, err)
	s.Start()
	b.Cleanup(func() { check.OK(b, s.Stop(context.Background())) })
	for s.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return s
}

// Cached mode, fill included; a take that finds nothing waits. The time bits are more
// than Baidu's 28, which one core uses up within hours at this speed.
func BenchmarkCached(b *testing.B) {
	for _, c := range []struct {
		name       string
		goroutines int
		count      int
	}{{"one, 1 goroutine", 1, 1}, {"one, 2 goroutines", 2, 1}, {"batch of 100", 1, 100}} {
		b.Run(c.name, func(b *testing.B) {
			s := benchmarked(b, func(*Options) {})
			b.ReportAllocs()
			b.ResetTimer()
			share(b, c.goroutines, func(times int) { takeMany(b, s, times, c.count) })
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.count), "ns/ID")
			b.ReportMetric(float64(s.Stats().Refused)/float64(b.N), "refused/op")
		})
	}
}

func takeMany(b *testing.B, s *Service, times, count int) {
	ctx, ids := context.Background(), make([]int64, 0, count)
	for range times {
		if _, err := s.Next(ctx, count, ids); err != nil {
			b.Error(err)
			return
		}
	}
}

// Default mode without its bound of IDs a second, which is the layout's: 2^40 here.
func BenchmarkDefault(b *testing.B) {
	for name, count := range map[string]int{"one": 1, "batch of 100": 100} {
		b.Run(name, func(b *testing.B) {
			s := benchmarked(b, func(o *Options) {
				o.Mode = ModeDefault
				o.Layout.TimeBits, o.Layout.WorkerBits, o.Layout.SeqBits = 20, 3, 40
			})
			b.ReportAllocs()
			b.ResetTimer()
			takeMany(b, s, b.N, count)
		})
	}
}

// baiduRing is Baidu's default: 8 blocks of 8192, refilled below half.
func baiduRing(tb testing.TB) (*Ring, func()) {
	r, err := NewRing(65536, 32768)
	check.Must(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	var filler sync.WaitGroup
	filler.Go(func() { fill(ctx, r, 8192) })
	return r, func() { cancel(); filler.Wait() }
}

// fill keeps the ring full with the numbers from 1 on, as the manual has it.
func fill(ctx context.Context, r *Ring, block int64) {
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
	for goroutines := 1; goroutines <= 2; goroutines++ {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			share(b, goroutines, func(times int) {
				for range times {
					n.Add(1)
				}
			})
		})
	}
}

// Taking with the background fill included. A take that finds nothing is tried
// again and counted.
func BenchmarkTake(b *testing.B) {
	for goroutines := 1; goroutines <= 2; goroutines++ {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			r, stop := baiduRing(b)
			defer stop()
			share(b, goroutines, func(times int) {
				for range times {
					takeOne(r)
				}
			})
			b.ReportMetric(float64(r.Stats().Refused)/float64(b.N), "refused/op")
		})
	}
}

func takeOne(r *Ring) {
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
	r, err := NewRing(8192, 1)
	check.Must(b, err)
	for b.Loop() {
		r.Put(1, 8192)
		r.Clear()
	}
}

// share shares b.N among goroutines.
func share(b *testing.B, goroutines int, f func(times int)) {
	var takers sync.WaitGroup
	for range goroutines {
		takers.Go(func() { f(b.N/goroutines + 1) })
	}
	takers.Wait()
}
