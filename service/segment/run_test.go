package segment_test

import (
	"context"
	"errors"
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

// A run is a segment of the row's step, whatever is held.
func TestRunsAreSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100, func(o *segment.Options) { o.MaxStep = 100 })
		r.run(t, 1, 100)
		r.mustTake(t, "orders", 101, 5)
		r.run(t, 201, 300)
		r.mustTake(t, "orders", 106, 95)
		db.set(func(db *table) {
			db.change = func(s model.TagSegment) model.TagSegment { s.End = s.First + 30; return s }
		})
		synctest.Wait()
		first := db.maxID("orders")
		r.run(t, first, first+29) // of a table that gives less
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
		r.run(t, 2, 3) // meanwhile the least was taken to see whether the table serves again: now it is one more
		r.mustTake(t, "orders", 1, 1)
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
		db.set(func(db *table) { db.delay = time.Hour })
		time.Sleep(2 * time.Second)
		go func() { waited <- again() }()
		synctest.Wait()
		stop(t, r.Service)
		check.Is(t, <-waited, model.ErrNotReady, "the waiter")
		want("orders", model.ErrNotReady)
	})
}
