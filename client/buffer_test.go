package client

import (
	"context"
	"testing"
)

// A buffer grows with use, and what is held is bounded.
func TestHeldIsBounded(t *testing.T) {
	s := fake(t)
	c, other := newClient(t, Options{Addrs: []string{s.URL}, MaxHeld: 25_000}),
		newClient(t, Options{Addrs: []string{s.URL}, MaxHeld: 1})
	uid := c.UID()
	if _, err := uid.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next, err := other.UID().Next(t.Context()); next != firstFetch+1 || err != nil {
		t.Errorf("the first ID fetched %d, %v", next-1, err)
	}
	used := int64(2) // by both
	for ; used < 1_000_000; used++ {
		if _, err := uid.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.running.Wait()
	next, err := other.UID().Next(t.Context())
	if held := next - 1 - used; held > 25_000 || err != nil || s.Requests() > 200 {
		t.Errorf("%d IDs are held, %d requests for %d IDs, %v", held, s.Requests(), used, err)
	}
}

// BenchmarkNext is refilled over HTTP on loopback, in this process.
func BenchmarkNext(b *testing.B) {
	c := newClient(b, Options{Addrs: []string{fake(b).URL}})
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
