package uid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func ExampleRing() {
	r, _ := NewRing(8, 4)
	fmt.Println(r.Put(100, 4), r.Put(200, 4), r.Put(300, 4)) // no room for the third
	id, ok := r.Take()
	fmt.Println(id, ok)
	ids, ok := r.TakeN(5, nil)
	fmt.Println(ids, ok)
	<-r.Low()
	_, ok = r.TakeN(3, nil)
	fmt.Println(ok, r.Len())
	// Output:
	// true true false
	// 100 true
	// [101 102 103 200 201] true
	// false 2
}

func ExampleRing_Wait() {
	r, _ := NewRing(8, 4)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		<-r.Low() // somebody found too little
		r.Put(1, 8)
	}()
	fmt.Println(r.Wait(ctx, 3, nil))
	// Output: [1 2 3] <nil>
}

func newRing(tb testing.TB, size, low int64) *Ring {
	tb.Helper()
	r, err := NewRing(size, low)
	check.Must(tb, err)
	return r
}

func TestNewRingRefuses(t *testing.T) {
	for _, c := range [][2]int64{{0, 0}, {8, 0}, {8, -1}, {8, 9}, {-8, 1}} {
		if r, err := NewRing(c[0], c[1]); r != nil || !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("New(%d, %d) = %v", c[0], c[1], err)
		}
	}
}

// take asks for n and wants those IDs, nil for a refusal.
func take(t *testing.T, r *Ring, n int, want []int64) {
	t.Helper()
	got, ok := r.TakeN(n, nil)
	if ok != (want != nil) || !slices.Equal(got, want) {
		t.Fatalf("TakeN(%d) = %v, %t, want %v", n, got, ok, want)
	}
}

// A batch is all or nothing over blocks; what it could not use is there for the
// next, in order.
func TestBatches(t *testing.T) {
	r := newRing(t, 10, 1)
	take(t, r, 1, nil) // before the first fill, which is not counted as refused
	r.Put(10, 3)
	take(t, r, 1, []int64{10})
	take(t, r, 3, nil) // puts 11 and 12 back
	take(t, r, 1, []int64{11})
	take(t, r, 2, nil)
	r.Put(20, 2)
	r.Put(30, 4)
	take(t, r, 8, nil)
	take(t, r, 0, []int64{})
	take(t, r, -1, nil)
	check.Equal(t, r.Len(), 7, "left")
	take(t, r, 4, []int64{12, 20, 21, 30})
	take(t, r, 4, nil)
	take(t, r, 3, []int64{31, 32, 33})
	take(t, r, 1, nil)
	if s := r.Stats(); s.Taken != 9 || s.Refused != 6 || r.Len() != 0 {
		t.Fatalf("%+v, %d left", s, r.Len())
	}
}

// What is appended to stays as it was when the take is refused.
func TestRefusedTakeKeepsTheSlice(t *testing.T) {
	r := newRing(t, 4, 1)
	r.Put(1, 2)
	if got, ok := r.TakeN(3, []int64{7}); ok || !slices.Equal(got, []int64{7}) {
		t.Errorf("TakeN = %v, %t", got, ok)
	}
}

func TestPutDiscardsWhatDoesNotFit(t *testing.T) {
	r := newRing(t, 8, 1)
	for i, c := range []struct {
		count int64
		ok    bool
	}{{9, false}, {8, true}, {1, false}, {0, false}, {-1, false}} {
		check.Equal(t, r.Put(int64(100*i), c.count), c.ok, "put of", c.count)
	}
	if s := r.Stats(); s.Discarded != 4 || r.Len() != 8 {
		t.Errorf("%+v, %d held", s, r.Len())
	}
	take(t, r, 8, []int64{100, 101, 102, 103, 104, 105, 106, 107})
}

func signalled(r *Ring) bool {
	select {
	case <-r.Low():
		return true
	default:
		return false
	}
}

// Low is signalled by the take that leaves fewer than the mark, once until the
// next put, and by whoever finds too little.
func TestLow(t *testing.T) {
	for name, takeOne := range map[string]func(*Ring){
		"singles": func(r *Ring) { r.Take() },
		"batches": func(r *Ring) { r.TakeN(1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, 8, 4)
			r.Put(1, 3) // below the mark: the filler is told at once
			r.Put(4, 5)
			if !signalled(r) || signalled(r) {
				t.Fatal("a put that leaves too few did not signal once")
			}
			for left := int64(7); left >= 0; left-- {
				takeOne(r)
				if got := signalled(r); got != (left == 3) || r.Len() != left {
					t.Fatalf("%d left: signalled %t", r.Len(), got)
				}
			}
			takeOne(r)
			if !signalled(r) {
				t.Fatal("a take that found nothing did not signal")
			}
			r.Put(1, 8)
			if signalled(r) {
				t.Fatal("signalled when full")
			}
			r.TakeN(5, nil)
			if !signalled(r) {
				t.Fatal("not armed again by a put")
			}
		})
	}
}

func TestClear(t *testing.T) {
	r := newRing(t, 10, 1)
	r.Put(1, 4)
	r.Put(11, 4)
	take(t, r, 2, []int64{1, 2})
	if n := r.Clear(); n != 6 || r.Len() != 0 || !signalled(r) {
		t.Fatalf("Clear = %d, %d left", n, r.Len())
	}
	check.Equal(t, r.Clear(), 0, "IDs of an empty ring")
	take(t, r, 1, nil)
	if !r.Put(100, 10) {
		t.Fatal("no room after Clear")
	}
	take(t, r, 1, []int64{100})
	if s := r.Stats(); s.Taken != 3 || s.Cleared != 6 {
		t.Errorf("%+v", s)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 8, 1)
		got := make(chan []int64)
		go func() {
			ids, err := r.Wait(t.Context(), 3, nil)
			check.OK(t, err)
			got <- ids
		}()
		synctest.Wait()
		r.Put(1, 2)
		synctest.Wait() // still too few
		r.Put(11, 1)
		if ids := <-got; !slices.Equal(ids, []int64{1, 2, 11}) {
			t.Errorf("Wait = %v", ids)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 8, 1)
		reason := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer cancel()
		if ids, err := r.Wait(ctx, 1, nil); !errors.Is(err, reason) || ids != nil {
			t.Errorf("Wait = %v, %v", ids, err)
		}
		check.Is(t, check.Err(r.Wait(t.Context(), 9, nil)), model.ErrInvalidArgument,
			"Wait for more than the ring holds")
	})
}

func TestAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 8, 1)
		check.Is(t, r.AwaitRoom(t.Context(), 9), model.ErrInvalidArgument, "AwaitRoom for more than the ring holds")
		check.OK(t, r.AwaitRoom(t.Context(), 8))
		r.Put(1, 8)
		ended := make(chan error, 1)
		go func() { ended <- r.AwaitRoom(t.Context(), 3) }()
		for range 2 {
			synctest.Wait()
			r.Take()
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("room for 3 after 2 takes: %v", err)
		default:
		}
		r.Take()
		check.OK(t, <-ended)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Is(t, r.AwaitRoom(ctx, 8), context.Canceled, "AwaitRoom of an ended context")
	})
}

// run is a number of consecutive IDs that one taker got.
type run struct{ first, count int64 }

// taker takes until the budget is used up and remembers what it got, in order.
type taker struct {
	ring    *Ring
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

// whole says whether the runs are 1…n without a repetition and, but for what may be cleared,
// without a gap, and how many IDs they have.
func whole(runs []run, cleared bool) (n int64, err error) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	next := int64(1)
	for _, r := range runs {
		if r.first < next || r.first > next && !cleared {
			return n, fmt.Errorf("for %d comes %d: lost, or given twice", next, r.first)
		}
		n, next = n+r.count, r.first+r.count
	}
	return n, nil
}

// stress runs takers against one filler that puts 1, 2, 3, … in blocks. A slow
// filler leaves the ring empty most of the time. What is cleared meanwhile was not taken.
type stress struct {
	size, block int64
	takers      int
	ids         int64 // taken in all, a batch of n counts as n
	batches     []int
	slow        bool
	clears      bool
}

func (s stress) name() string {
	return fmt.Sprintf("%d slots, %d takers, batches %v, slow %t, clears %t", s.size, s.takers, s.batches, s.slow, s.clears)
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
	if s.clears {
		filler.Go(func() {
			for ; budget.Load() > 0; runtime.Gosched() {
				r.Clear()
			}
		})
	}
	all := make([]*taker, s.takers)
	for i := range all {
		all[i] = &taker{ring: r, batches: s.batches, budget: &budget}
		takers.Go(func() { check.OK(t, all[i].run(ctx)) })
	}
	takers.Wait()
	cancel()
	filler.Wait()
	return s.check(t, r, all)
}

func (s stress) check(t *testing.T, r *Ring, all []*taker) (taken, empty int64) {
	last := &taker{}
	for id, ok := r.Take(); ok; id, ok = r.Take() { // what was left
		check.OK(t, last.note([]int64{id}))
	}
	runs := last.got
	for _, w := range all {
		runs = append(runs, w.got...)
		empty += w.empty
	}
	n, err := whole(runs, s.clears)
	if stats := r.Stats(); err != nil || n < s.ids || stats.Taken != n || s.clears && stats.Cleared == 0 {
		t.Errorf("%d of %d IDs: %v, %+v", n, s.ids, err, stats)
	}
	return n, empty
}

// dribble puts a block only when the ring ran dry.
func dribble(ctx context.Context, r *Ring, block int64) {
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
			if s.slow && s.takers == 64 && empty < n/4 {
				t.Errorf("%d takes of %d found the ring empty: it is not slow", empty, n)
			}
		})
	}
	t.Logf("%d IDs taken", taken)
	if taken < 5_000_000 {
		t.Errorf("%d IDs taken, want 5 million", taken)
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
	out = append(out, stress{size: 64, block: 8, takers: 4, ids: 300_000, batches: []int{1, 3, 20}, clears: true})
	for _, takers := range []int{1, 4, 64} {
		out = append(out, stress{size: 65536, block: 8192, takers: takers, ids: 1_400_000, batches: []int{100, 1, 10_000, 8192}})
	}
	return out
}
