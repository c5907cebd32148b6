// Package listtest is the contract that every store of lists keeps:
// one test body, run over the store in the process and over Redis in each of
// its modes. It is imported by tests only.
package listtest

import (
	"context"
	"errors"
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
