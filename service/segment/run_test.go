package segment_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

// run takes a run that must be so.
func (r replica) run(t *testing.T, wantFirst, wantLast int64) {
	t.Helper()
	if first, last, err := r.Run(t.Context(), "orders"); first != wantFirst || last != wantLast || err != nil {
		t.Fatalf("Run = %d, %d, %v, want %d and %d", first, last, err, wantFirst, wantLast)
	}
}

// A run has the row's step. What it leaves of a block is for callers of Next, so no ID is
// left out.
func TestRunsAreConsecutiveAndLeaveNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100, func(o *segment.Options) { o.MaxStep = 100 })
		r.run(t, 1, 100)
		synctest.Wait()
		check.Equal(t, r.Views()[0].Held, 100, "IDs held ahead of the next run")
		r.run(t, 101, 200)
		r.mustTake(t, "orders", 201, 5)
		r.run(t, 301, 400) // the current block has 95
		r.mustTake(t, "orders", 206, 95)
		synctest.Wait()
		r.mustTake(t, "orders", 401, 1)
		stop(t, r.Service)
		if s := r.Stats(); s.Issued != 401 || s.Issued+s.Wasted != db.maxID("orders")-1 {
			t.Errorf("%d issued and %d wasted of %d", s.Issued, s.Wasted, db.maxID("orders")-1)
		}
	})
}

// A block of several steps is cut into runs.
func TestRunsShareALongBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		db.set(func(db *table) {
			db.change = func(s model.TagSegment) model.TagSegment { s.Step = 40; return s }
		})
		db.put("orders", 1, 100)
		r := ready(t, db)
		r.batch(t, "orders", 1)
		for _, want := range [][2]int64{{2, 41}, {42, 81}, {101, 140}, {141, 180}, {181, 200}} {
			r.run(t, want[0], want[1])
			synctest.Wait()
		}
	})
}

// Callers that wait for runs share a load, and a block that is shorter than the step is a
// shorter run.
func TestRunsWaitForALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db)
		db.set(func(db *table) { db.delay = 100 * time.Millisecond })
		var firsts []int64
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				first, last, err := r.Run(t.Context(), "orders")
				if err != nil || last-first != 99 {
					t.Errorf("%d, %d, %v", first, last, err)
				}
				mu.Lock()
				defer mu.Unlock()
				firsts = append(firsts, first)
			})
		}
		wg.Wait()
		slices.Sort(firsts)
		if !slices.Equal(firsts, []int64{1, 101, 201, 301, 401}) || len(db.asked()) > 3 {
			t.Errorf("runs begin at %v, after %d loads", firsts, len(db.asked()))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		db.set(func(db *table) {
			db.change = func(s model.TagSegment) model.TagSegment { s.End = s.First + 30; return s }
		})
		ready(t, db).run(t, 1, 30)
	})
}

func TestRunsThatCannotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db)
		want := func(tag string, target error) {
			t.Helper()
			if first, last, err := r.Run(context.Background(), tag); !errors.Is(err, target) || first != 0 || last != 0 {
				t.Errorf("Run(%q) = %d, %d, %v, want %v", tag, first, last, err, target)
			}
		}
		want("", model.ErrInvalidArgument)
		want("unknown", model.ErrUnknownTag)
		db.fail(errAway)
		want("orders", model.ErrSegmentEmpty)
		db.fail(nil)
		time.Sleep(2 * time.Second)
		r.run(t, 1, 1) // after a failure it is the least that serves who waits
		r.run(t, 2, 3) // and then one more than has arrived
		db.put("orders", model.MaxTagID, 100)
		again := func() error { _, _, err := r.Run(t.Context(), "orders"); return err }
		for range 3 { // what is held, and then the end
			if again() != nil {
				break
			}
			time.Sleep(time.Second)
		}
		want("orders", model.ErrLimitReached)
		waited := make(chan error)
		db.fail(errAway)
		time.Sleep(2 * time.Second)
		go func() { waited <- again() }()
		synctest.Wait()
		stop(t, r.Service)
		check.Is(t, <-waited, model.ErrNotReady, "the waiter")
		want("orders", model.ErrNotReady)
	})
}
