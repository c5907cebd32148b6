package uid

import (
	"context"
	"sync"
	"testing"
	"time"

	"shardid/model"
)

// benchmarked is a service with Baidu's defaults and the fill in its own goroutine.
func benchmarked(b *testing.B, change func(*Options)) *Service {
	opts := options(newTable())
	opts.Layout = model.UIDLayout{TimeBits: 41, WorkerBits: 9, SeqBits: 13, Epoch: time.Now().Add(-time.Hour).Truncate(time.Second)}
	opts.BoostPower, opts.RejectTake = 3, TakeWait
	change(&opts)
	s, err := New(opts)
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	b.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
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
			var takers sync.WaitGroup
			for range c.goroutines {
				takers.Go(func() { takeMany(b, s, b.N/c.goroutines+1, c.count) })
			}
			takers.Wait()
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
