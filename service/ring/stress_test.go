package ring_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"shardid/service/ring"
)

// run is a number of consecutive IDs that one taker got.
type run struct{ first, count int64 }

// taker takes until the budget is used up and remembers what it got, in order.
type taker struct {
	ring    *ring.Ring
	batches []int // sizes, in turn; 1 is Take, a negative one Wait
	budget  *atomic.Int64
	got     []run
	empty   int64 // takes that found too little
}

func (w *taker) run(ctx context.Context) error {
	ids := make([]int64, 0, slices.Max(w.batches))
	for i := 0; w.budget.Load() > 0; i++ {
		var err error
		ids, err = w.take(ctx, w.batches[i%len(w.batches)], ids[:0])
		if err != nil {
			return err
		}
		if err := w.note(ids); err != nil {
			return err
		}
		w.budget.Add(-int64(len(ids)))
	}
	return nil
}

func (w *taker) take(ctx context.Context, n int, ids []int64) ([]int64, error) {
	if n < 0 {
		return w.ring.Wait(ctx, -n, ids)
	}
	if n == 1 {
		id, ok := w.ring.Take()
		if !ok {
			w.empty++
			return ids, nil
		}
		return append(ids, id), nil
	}
	ids, ok := w.ring.TakeN(n, ids)
	if !ok {
		w.empty++
		n = 0
	}
	if len(ids) != n {
		return nil, fmt.Errorf("TakeN gave %d IDs instead of %d", len(ids), n)
	}
	return ids, nil
}

// note keeps IDs as runs, so that 50 million fit into memory.
func (w *taker) note(ids []int64) error {
	for _, id := range ids {
		k := len(w.got) - 1
		switch {
		case k >= 0 && id < w.got[k].first+w.got[k].count:
			return fmt.Errorf("%d taken after %d", id, w.got[k].first+w.got[k].count-1)
		case k >= 0 && id == w.got[k].first+w.got[k].count:
			w.got[k].count++
		default:
			w.got = append(w.got, run{id, 1})
		}
	}
	return nil
}

// whole says whether the runs are 1…n without a gap and without a repetition.
func whole(runs []run) (n int64, err error) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	for _, r := range runs {
		if r.first != n+1 {
			return n, fmt.Errorf("after %d comes %d: lost, or given twice", n, r.first)
		}
		n += r.count
	}
	return n, nil
}

// stress runs takers against one filler that puts 1, 2, 3, … in blocks. A slow
// filler leaves the ring empty most of the time.
type stress struct {
	size, block int64
	takers      int
	ids         int64 // taken in all, a batch of n counts as n
	batches     []int
	slow        bool
}

func (s stress) name() string {
	return fmt.Sprintf("%d slots, %d takers, batches %v, slow %t", s.size, s.takers, s.batches, s.slow)
}

func (s stress) run(t *testing.T) (taken, empty int64) {
	r := newRing(t, s.size, s.size/2)
	ctx, cancel := context.WithCancel(t.Context())
	var filler, takers sync.WaitGroup
	if s.slow {
		filler.Go(func() { dribble(ctx, r, s.block) })
	} else {
		filler.Go(func() { fill(ctx, r, s.block) })
	}
	var budget atomic.Int64
	budget.Store(s.ids)
	all := make([]*taker, s.takers)
	for i := range all {
		all[i] = &taker{ring: r, batches: s.batches, budget: &budget}
		takers.Go(func() {
			if err := all[i].run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	takers.Wait()
	cancel()
	filler.Wait()
	return s.check(t, r, all)
}

func (s stress) check(t *testing.T, r *ring.Ring, all []*taker) (taken, empty int64) {
	last := &taker{}
	for id, ok := r.Take(); ok; id, ok = r.Take() { // what was left
		if err := last.note([]int64{id}); err != nil {
			t.Error(err)
		}
	}
	runs := last.got
	for _, w := range all {
		runs = append(runs, w.got...)
		empty += w.empty
	}
	n, err := whole(runs)
	if stats := r.Stats(); err != nil || n < s.ids || stats.Taken != n {
		t.Errorf("%d of %d IDs: %v, %+v", n, s.ids, err, stats)
	}
	return n, empty
}

// dribble puts a block only when the ring ran dry.
func dribble(ctx context.Context, r *ring.Ring, block int64) {
	for next := int64(1); ctx.Err() == nil; runtime.Gosched() {
		if r.Len() == 0 && r.Put(next, block) {
			next += block
		}
	}
}

// No ID is given twice and none is lost, in rings of 8 to 65 536 slots with 1 to
// 64 takers. A fast filler races with singles, batches that fit and do not fit into
// what is left, and waiters; a slow one leaves the ring empty for most takes.
func TestStress(t *testing.T) {
	var taken int64
	for _, s := range stresses() {
		t.Run(s.name(), func(t *testing.T) {
			n, empty := s.run(t)
			taken += n
			if s.slow && s.takers == 64 && empty < n {
				t.Errorf("%d takes of %d found the ring empty: it is not slow", empty, n)
			}
		})
	}
	t.Logf("%d IDs taken", taken)
	if taken < 50_000_000 {
		t.Errorf("%d IDs taken, want 50 million", taken)
	}
}

func stresses() (out []stress) {
	for _, size := range []int64{8, 64, 1024, 65536} {
		for _, takers := range []int{1, 2, 8, 64} {
			large, part := int(size-size/4), int(size/2)+1
			out = append(out,
				stress{size: size, block: size / 8, takers: takers, ids: 30_000, batches: []int{1}},
				stress{size: size, block: size / 2, takers: takers, ids: 30_000, batches: []int{1, 2, 5}},
				stress{size: size, block: size / 4, takers: takers, ids: max(30_000, 32*size), batches: []int{1, part, 3, -large, -1}},
				stress{size: size, block: min(size/8, 8), takers: takers, ids: 3_000, batches: []int{1, 2}, slow: true})
		}
	}
	for _, takers := range []int{1, 4, 64} {
		out = append(out, stress{size: 65536, block: 8192, takers: takers, ids: 14_000_000, batches: []int{100, 1, 10_000, 8192}})
	}
	return out
}

// Clear and takes exclude each other: what is cleared was not taken.
func TestStressClear(t *testing.T) {
	r := newRing(t, 64, 32)
	ctx, cancel := context.WithCancel(t.Context())
	var filler, takers sync.WaitGroup
	filler.Go(func() { fill(ctx, r, 8) })
	var budget atomic.Int64
	budget.Store(300_000)
	all := make([]*taker, 4)
	for i := range all {
		all[i] = &taker{ring: r, batches: []int{1, 3, 20}, budget: &budget}
		takers.Go(func() {
			if err := all[i].run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	filler.Go(func() {
		for budget.Load() > 0 {
			r.Clear()
			runtime.Gosched()
		}
	})
	takers.Wait()
	cancel()
	filler.Wait()
	var taken int64
	var runs []run
	for _, w := range all {
		runs = append(runs, w.got...)
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	for i, g := range runs {
		taken += g.count
		if i > 0 && g.first < runs[i-1].first+runs[i-1].count {
			t.Fatalf("%d was given twice", g.first)
		}
	}
	if s := r.Stats(); s.Taken != taken || s.Cleared == 0 {
		t.Errorf("%d taken, %+v", taken, s)
	}
}
