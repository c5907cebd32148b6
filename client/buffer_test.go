package client

import (
	"context"
	"testing"
)

// A buffer grows with use, and what is held is bounded.
func TestHeldIsBounded(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}, MaxHeld: 25_000})
	uid := c.UID()
	if _, err := uid.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.issued.Load(); n != firstFetch {
		t.Errorf("the first ID fetched %d", n)
	}
	const used = 1_000_000
	for range used {
		if _, err := uid.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.fetches.Wait()
	if held := s.issued.Load() - used; held > 25_000 || s.requests.Load() > 200 {
		t.Errorf("%d IDs are held, %d requests for %d IDs", held, s.requests.Load(), used)
	}
}

// BenchmarkNext is refilled over HTTP on loopback, in this process.
func BenchmarkNext(b *testing.B) {
	s := &service{most: 1 << 20}
	c := newClient(b, Options{Addrs: []string{start(b, s)}})
	ctx := context.Background()
	source, queue := c.Segment("a"), c.Queue(1)
	b.Run("segment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := source.Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("queue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := queue.Next(ctx, "alice"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("two goroutines", func(b *testing.B) {
		b.SetParallelism(1)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := source.Next(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
