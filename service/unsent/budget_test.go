package unsent

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Without room those that wait longest are given up, as few as it takes, and each once; what is
// new waits until they have left.
func TestTheLongestWaitingGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100_000)
		var ended []string
		hold := func(name string, size int) *Answer {
			return b.Hold(size, func() { ended = append(ended, name) })
		}
		want := func(held int, names ...string) {
			t.Helper()
			synctest.Wait()
			if got, cut := b.Held(); got != held || cut != int64(len(names)) || !slices.Equal(ended, names) {
				t.Errorf("%d bytes held, %d cut, %v ended; want %d and %v", got, cut, ended, held, names)
			}
		}
		first, second := hold("first", 40_000), hold("second", 40_000)
		if hold("small", Small) != nil {
			t.Error("a small answer is counted")
		}
		first.Progress()
		want(80_000)
		var third, fourth *Answer
		var all sync.WaitGroup
		all.Go(func() { third = hold("third", 50_000) })
		want(80_000, "second")
		if third != nil {
			t.Error("the third did not wait")
		}
		second.Release()
		second.Release()
		all.Wait()
		want(90_000, "second")
		all.Go(func() { fourth = hold("fourth", 60_000) })
		all.Go(func() { hold("fifth", 40_000).Release() })
		synctest.Wait()
		first.Release()
		third.Release()
		all.Wait()
		fourth.Release()
		want(0, ended...)
		if hold("huge", 1_000_000).Release(); len(ended) > 4 {
			t.Errorf("%v ended", ended)
		}
		want(0, ended...)
		var none *Budget
		none.Hold(1<<30, nil).Release()
	})
}

func TestBudgetFromManyGoroutines(t *testing.T) {
	b := New(100_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				b.Hold(30_000, func() {}).Release()
			}
		})
	}
	all.Wait()
	if held, _ := b.Held(); held != 0 || b.waiting.Len() != 0 {
		t.Errorf("%d bytes of %d answers are left", held, b.waiting.Len())
	}
}
