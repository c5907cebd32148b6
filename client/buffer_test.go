package client

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// A buffer grows with use, and what is held is bounded.
func TestHeldIsBounded(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}, MaxHeld: 25_000})
	uid := c.UID()
	if _, err := uid.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.issued.Load(); n != firstTarget {
		t.Errorf("the first ID fetched %d", n)
	}
	const used = 1_000_000
	for range used {
		if _, err := uid.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.fetches.Wait()
	// One fetch is used from its half on while the next one comes.
	if held := s.issued.Load() - used; held > 3*25_000/2+1 || s.requests.Load() > 200 {
		t.Errorf("%d IDs are held, %d requests for %d IDs", held, s.requests.Load(), used)
	}
}

// A fetch takes several requests: the answer of each is used as soon as it has come.
func TestAnswersAreUsedAtOnce(t *testing.T) {
	s := &service{most: 1 << 20, gate: make(chan struct{})}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	defer close(s.gate)
	c.UID().buffer.target = 3 * maxBatch
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if ids, err := c.UID().Take(ctx, maxBatch); err != nil || len(ids) != maxBatch {
		t.Errorf("%d IDs, %v", len(ids), err)
	}
}

func TestIdleHoldsNothing(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	first, err := c.Segment("a").Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.fetches.Wait()       // a buffer that is being filled is not idle
	for range idleSweeps { // the first one sees the use
		c.sweep()
	}
	second, _ := c.Segment("a").Next(t.Context())
	if second != first+1 {
		t.Errorf("%d after %d: a buffer in use was thrown away", second, first)
	}
	for range idleSweeps + 1 {
		c.sweep()
	}
	if third, err := c.Segment("a").Next(t.Context()); err != nil || third <= firstTarget {
		t.Errorf("%d, %v: what was held for a minute is used", third, err)
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
	var n atomic.Int64
	b.Run("atomic add, two goroutines", func(b *testing.B) { // the floor of what they can share
		b.SetParallelism(1)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				n.Add(1)
			}
		})
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

// Buffers of tags that are no longer used hold no memory; a Source that was kept goes on.
func TestIdleTagsAreForgotten(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	kept := c.Segment("kept")
	first, err := kept.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 100_000 {
		c.Segment("tag-" + strconv.Itoa(i))
	}
	if c.Segment("kept") != kept {
		t.Error("a tag in use has another source")
	}
	full := heap()
	for range idleSweeps + 1 {
		c.sweep()
	}
	c.mu.Lock()
	buffers, segments := len(c.buffers), len(c.segments)
	c.mu.Unlock()
	if after := heap(); buffers != 0 || segments != 0 || after > before+1<<20 {
		t.Errorf("%d buffers and %d tags are left, %d KiB after %d KiB and at most %d KiB", buffers, segments, after>>10, before>>10, full>>10)
	}
	second, err := kept.Next(t.Context())
	if err != nil || second <= first {
		t.Errorf("%d after %d, %v", second, first, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, swept := c.buffers[kept.buffer]; !swept {
		t.Error("the janitor does not know a buffer that is in use again")
	}
}
