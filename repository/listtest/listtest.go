// Package listtest is the contract that every store of lists keeps:
// one test body, run over the store in the process and over Redis in each of
// its modes. It is imported by tests only.
package listtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// Store is what the service needs of a store: its interface Lists, without the locks, which only replicas need.
type Store interface {
	Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error)
	State(ctx context.Context, keys []model.ListKey) []model.ListState
	Probe(ctx context.Context, keys []model.ListKey) []model.ListState
	Push(ctx context.Context, reqs []model.PushRequest) []error
	Delete(ctx context.Context, keys []model.ListKey) error
}

// unlimited is a cap no list of these tests reaches.
const unlimited = 1 << 40

// Run runs the contract. newStore is called once per subtest and gives a store
// without lists, which it also closes.
func Run(t *testing.T, newStore func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"indices come oldest first", testOrder},
		{"arguments out of range", testArguments},
		{"a full list refuses", testCap},
		{"another life or lower indices are refused", testRefused},
		{"a push that comes again or late changes nothing", testRepeats},
		{"delete keeps the high-water mark", testDelete},
		{"the highest indices are exact", testHighest},
		{"2 500 lists in order", testMany},
		{"16 goroutines never meet", testConcurrent},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newStore(t)) })
	}
}

// Fill pushes first..last to the list and fails the test when it is refused.
func Fill(t testing.TB, s Store, key model.ListKey, first, last int64) {
	t.Helper()
	check.Must(t, push(t, s, key, first, last, unlimited))
}

// Pop pops n indices and fails the test on an error.
func Pop(t testing.TB, s Store, key model.ListKey, n int) model.Popped {
	t.Helper()
	p, err := s.Pop(t.Context(), key, n)
	check.Must(t, err)
	return p
}

// State asks for one list and fails the test on an error.
func State(t testing.TB, s Store, key model.ListKey) model.ListState {
	t.Helper()
	st := s.State(t.Context(), []model.ListKey{key})[0]
	check.Must(t, st.Err)
	return st
}

// Expect fails the test unless the indices are first..last.
func Expect(t testing.TB, got []int64, first, last int64) {
	t.Helper()
	if int64(len(got)) != last-first+1 {
		t.Fatalf("got %d indices, want %d…%d", len(got), first, last)
	}
	for i, index := range got {
		if index != first+int64(i) {
			t.Fatalf("index %d is %d, want %d", i, index, first+int64(i))
		}
	}
}

func push(t testing.TB, s Store, key model.ListKey, first, last, limit int64) error {
	t.Helper()
	return s.Push(t.Context(), []model.PushRequest{{
		Key: key, Life: State(t, s, key).Life,
		Segment: model.Segment{First: first, Last: last}, Cap: limit,
	}})[0]
}

// wantStoreErr wants an argument error as every other failure of a store.
func wantStoreErr(t testing.TB, got error) {
	t.Helper()
	var store *model.StoreError
	if !errors.As(got, &store) || !errors.Is(got, model.ErrInvalidArgument) {
		t.Fatalf("got error %v, want a StoreError with ErrInvalidArgument", got)
	}
}

func aKey() model.ListKey { return model.ListKey{App: 255, Shard: 63} }

func testOrder(t *testing.T, s Store) {
	st := State(t, s, aKey())
	if st.Life == "" || st.Len != 0 || st.HighWater != 0 {
		t.Errorf("state of an unknown list: %+v", st)
	}
	if p := Pop(t, s, aKey(), 10); p.Life != st.Life || len(p.Indices) != 0 || p.Len != 0 {
		t.Errorf("pop of an unknown list: %+v, state %+v", p, st)
	}
	Fill(t, s, aKey(), 1, 10)
	Fill(t, s, aKey(), 11, 15)
	p := Pop(t, s, aKey(), 1)
	Expect(t, p.Indices, 1, 1)
	if st = State(t, s, aKey()); st.Len != 14 || p.Len != 14 || st.HighWater != 15 || st.Life != p.Life {
		t.Errorf("after 1 of 15: %+v, popped %+v", st, p)
	}
	check.Equal(t, s.Probe(t.Context(), []model.ListKey{aKey()})[0], st, "probe")
	Expect(t, Pop(t, s, aKey(), 11).Indices, 2, 12)
	p = Pop(t, s, aKey(), 10)
	check.Equal(t, p.Len, 0, "the length of the list")
	Expect(t, p.Indices, 13, 15) // fewer than asked for
	Fill(t, s, aKey(), 101, 102) // a gap is no matter
	Expect(t, Pop(t, s, aKey(), 2).Indices, 101, 102)
}

// testArguments: what is malformed changes nothing, and of nothing there is nothing to do.
func testArguments(t *testing.T, s Store) {
	Fill(t, s, aKey(), 1, 2)
	for _, n := range []int{-1, 0, 10_001} {
		p, err := s.Pop(t.Context(), aKey(), n)
		wantStoreErr(t, err)
		check.Equal(t, len(p.Indices), 0, "n =", n, "gave", p.Indices, "with an error")
	}
	for _, seg := range []model.Segment{
		{}, {First: -5, Last: 5}, {First: 3}, {First: 4, Last: 3}, {First: 3, Last: model.MaxIndex + 1},
	} {
		wantStoreErr(t, push(t, s, aKey(), seg.First, seg.Last, unlimited))
	}
	if st := State(t, s, aKey()); st.Len != 2 || st.HighWater != 2 {
		t.Errorf("what is malformed changed the list: %+v", st)
	}
	if len(s.State(t.Context(), nil)) != 0 || len(s.Push(t.Context(), nil)) != 0 {
		t.Error("answers without questions")
	}
	check.OK(t, s.Delete(t.Context(), nil), "an error without work")
}

// testCap: a segment is pushed whole, however long, or not at all.
func testCap(t *testing.T, s Store) {
	Fill(t, s, aKey(), 1, 100)
	check.Is(t, push(t, s, aKey(), 101, 25_100, 100), model.ErrListFull)
	if st := State(t, s, aKey()); st.Len != 100 || st.HighWater != 100 {
		t.Errorf("a refused push changed the list: %+v", st)
	}
	Pop(t, s, aKey(), 1)
	check.Is(t, push(t, s, aKey(), 201, 25_200, 100), nil)
	Expect(t, Pop(t, s, aKey(), 99).Indices, 2, 100)
	check.Equal(t, State(t, s, aKey()).Len, 25_000, "length")
	for _, p := range [][2]int64{{201, 10_200}, {10_201, 20_200}, {20_201, 25_200}} {
		Expect(t, Pop(t, s, aKey(), 10_000).Indices, p[0], p[1])
	}
}

func testRefused(t *testing.T, s Store) {
	Fill(t, s, aKey(), 101, 200)
	stale := model.PushRequest{Key: aKey(), Life: State(t, s, aKey()).Life + "0", Cap: unlimited}
	stale.Segment = model.Segment{First: 201, Last: 209}
	check.Is(t, s.Push(t.Context(), []model.PushRequest{stale})[0], model.ErrLifeChanged)
	Pop(t, s, aKey(), 100)
	check.Is(t, push(t, s, aKey(), 101, 200, unlimited), model.ErrNotAboveHighWater) // empty, and yet
	Fill(t, s, aKey(), 201, 201)
	Expect(t, Pop(t, s, aKey(), 9).Indices, 201, 201)
}

// testRepeats pushes segments of one life again and again, in any order, between pops. A store may
// repeat what it sends, and its callers rely on that no index comes twice for it.
func testRepeats(t *testing.T, s Store) {
	rng := rand.New(rand.NewPCG(1, 2))
	made := []model.PushRequest{{
		Key: aKey(), Life: State(t, s, aKey()).Life, Segment: model.Segment{First: 1, Last: 5}, Cap: unlimited,
	}}
	seen := map[int64]bool{}
	highest := int64(0)
	for range 400 {
		switch rng.IntN(4) {
		case 0:
			next := made[len(made)-1]
			next.Segment.First = next.Segment.Last + 1
			next.Segment.Last += 1 + rng.Int64N(19)
			made = append(made, next)
		case 1, 2:
			r := made[rng.IntN(len(made))]
			want := model.ErrNotAboveHighWater
			if r.Segment.First > highest {
				want = nil
			}
			check.Is(t, s.Push(t.Context(), []model.PushRequest{r})[0], want)
			highest = max(highest, r.Segment.Last)
		default:
			for _, index := range Pop(t, s, aKey(), 1+rng.IntN(10)).Indices {
				check.Equal(t, seen[index], false, "index", index, "came before")
				seen[index] = true
			}
		}
	}
	check.Equal(t, len(seen) > 100, true, "indices", len(seen))
}

func testDelete(t *testing.T, s Store) {
	other := model.ListKey{App: 1, Shard: 1}
	Fill(t, s, aKey(), 1, 100)
	Fill(t, s, other, 1, 3)
	check.Must(t, s.Delete(t.Context(), []model.ListKey{aKey(), {App: 9, Shard: 9}}))
	if st := State(t, s, aKey()); st.Len != 0 || st.HighWater != 100 {
		t.Errorf("after delete: %+v", st)
	}
	check.Is(t, push(t, s, aKey(), 100, 200, unlimited), model.ErrNotAboveHighWater)
	Fill(t, s, aKey(), 101, 102)
	Expect(t, Pop(t, s, aKey(), 5).Indices, 101, 102)
	Expect(t, Pop(t, s, other, 5).Indices, 1, 3)
}

func testHighest(t *testing.T, s Store) {
	Fill(t, s, aKey(), model.MaxIndex-1234, model.MaxIndex)
	Expect(t, Pop(t, s, aKey(), 2000).Indices, model.MaxIndex-1234, model.MaxIndex)
	check.Equal(t, State(t, s, aKey()).HighWater, model.MaxIndex, "high water")
	check.Is(t, push(t, s, aKey(), model.MaxIndex, model.MaxIndex, unlimited), model.ErrNotAboveHighWater)
}

// testMany: each list is answered for itself, in the order of the requests.
func testMany(t *testing.T, s Store) {
	keys := make([]model.ListKey, 2_500)
	for i := range keys { // of many apps, in no order a store may sort by
		at := i * 7919 % (model.Apps * model.Shards)
		keys[i] = model.ListKey{App: uint8(at / model.Shards), Shard: uint8(at % model.Shards)}
	}
	segment := func(i int) model.Segment {
		switch {
		case i%3 == 1:
			return model.Segment{First: 5, Last: 1} // malformed
		case i < 300:
			return model.Segment{First: 1, Last: int64(1 + i%5*5_000)}
		}
		return model.Segment{First: 1, Last: int64(i%7 + 1)}
	}
	reqs := make([]model.PushRequest, len(keys))
	for i, st := range s.State(t.Context(), keys) {
		check.Must(t, st.Err)
		reqs[i] = model.PushRequest{Key: keys[i], Life: st.Life, Segment: segment(i), Cap: unlimited}
	}
	for i, err := range s.Push(t.Context(), reqs) {
		if (err != nil) != (i%3 == 1) {
			t.Fatalf("push %d: %v", i, err)
		}
	}
	for i, st := range s.State(t.Context(), keys) {
		if want := max(segment(i).Len(), 0); st.Err != nil || st.Len != want || st.HighWater != want {
			t.Fatalf("state %d of list %s: %+v, want %d", i, keys[i], st, want)
		}
	}
	// The same list twice in one call: the second is judged after the first.
	h := State(t, s, aKey()).Life
	errs := s.Push(t.Context(), []model.PushRequest{
		{Key: aKey(), Life: h, Segment: model.Segment{First: 1, Last: 10}, Cap: 5},
		{Key: aKey(), Life: h, Segment: model.Segment{First: 10, Last: 20}, Cap: unlimited},
		{Key: aKey(), Life: h, Segment: model.Segment{First: 11, Last: 20}, Cap: 5},
	})
	check.Is(t, errs[0], nil)
	check.Is(t, errs[1], model.ErrNotAboveHighWater)
	check.Is(t, errs[2], model.ErrListFull)
}

func testConcurrent(t *testing.T, s Store) {
	const poppers, segments, length = 16, 20, 500
	var mu sync.Mutex
	var all []int64
	var wg sync.WaitGroup
	var filled atomic.Bool
	for i := range poppers {
		wg.Go(func() {
			for {
				last := filled.Load()
				p, err := s.Pop(t.Context(), aKey(), i%3*10+1)
				if err != nil || last && len(p.Indices) == 0 {
					check.OK(t, err)
					return
				}
				mu.Lock()
				all = append(all, p.Indices...)
				mu.Unlock()
			}
		})
	}
	for i := range int64(segments) {
		Fill(t, s, aKey(), i*length+1, (i+1)*length)
	}
	filled.Store(true)
	wg.Wait()
	slices.Sort(all)
	Expect(t, all, 1, segments*length)
}
