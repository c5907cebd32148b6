package segment_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

func TestATableThatWentBackIsLiftedAndMendedByTheReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders", "unused")
		r := ready(t, db, func(o *segment.Options) { o.Runway = 1 }) // Leaf's rule alone
		r.mustTake(t, "orders", 1, 150)                              // up to 301 is taken, or more
		synctest.Wait()
		seen := db.maxID("orders")
		db.put("orders", 50, 100)
		db.put("unused", -7, 100)
		time.Sleep(61 * time.Second)
		if got := db.maxID("orders"); got <= seen {
			t.Errorf("max_id is %d, was %d", got, seen)
		}
		check.Equal(t, db.maxID("unused"), -7, "max_id of a tag that nobody uses became")
		check.Equal(t, r.Stats().Lifts, 1, "stats")
		r.mustTake(t, "orders", 151, 1000)
		if s := r.Stats(); s.Lifts != 1 || s.Repeated != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestAHealthyTableIsNeverTakenForOneThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(1000, "orders")
		db.delay = 7 * time.Millisecond // readings grow old while segments are taken
		r := ready(t, db, func(o *segment.Options) { o.Reload, o.Runway, o.MaxStep = 10*time.Millisecond, 1, 1000 })
		for range 500 {
			r.batch(t, "orders", 999)
			time.Sleep(13 * time.Millisecond)
			if v := r.Views()[0]; v.Ahead > 1 {
				t.Fatalf("%d blocks are held ahead", v.Ahead)
			}
		}
		if s := r.Stats(); s.Lifts != 0 || s.Repeated != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestTheTripwireRefusesWhatWasHandedOut(t *testing.T) {
	for name, bad := range map[string]func(model.TagSegment) model.TagSegment{
		"an old segment": func(s model.TagSegment) model.TagSegment { s.First, s.End = 1, 101; return s },
		"an overlap":     func(s model.TagSegment) model.TagSegment { s.First--; return s },
		"0":              func(s model.TagSegment) model.TagSegment { s.First, s.End = 0, 100; return s },
		"negative":       func(s model.TagSegment) model.TagSegment { s.First, s.End = -100, 0; return s },
		"nothing":        func(s model.TagSegment) model.TagSegment { s.End = s.First; return s },
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			db := newTable(100, "orders")
			r := ready(t, db)
			r.mustTake(t, "orders", 1, 5)
			times := 0
			db.set(func(db *table) {
				db.change = func(s model.TagSegment) model.TagSegment {
					if times++; times <= 2 {
						return bad(s)
					}
					return s
				}
			})
			last := int64(5)
			for range 1000 {
				id, err := r.one("orders")
				if err != nil || id <= last {
					t.Fatalf("one = %d, %v after %d", id, err, last)
				}
				last = id
			}
			check.Equal(t, r.Stats().Repeated, 2, "stats")
		}))
	}
}

func TestALostAnswerIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 5)
		db.set(func(db *table) { db.lose = true })
		r.mustTake(t, "orders", 6, 95) // [101, 201) is lost, and what follows
		time.Sleep(time.Second)
		lost := db.maxID("orders")
		db.set(func(db *table) { db.lose = false })
		if id, err := r.one("orders"); err != nil || id != lost {
			t.Errorf("one = %d, %v, want %d", id, err, lost)
		}
		if s := r.Stats(); s.FailedLoads == 0 || s.Repeated != 0 || s.Lifts != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestARowThatCannotBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		db.put("broken", 1, 0)
		r := ready(t, db)
		for range 1000 {
			if _, err := r.one("broken"); !errors.Is(err, model.ErrSegmentEmpty) {
				t.Fatal(err)
			}
		}
		if n := len(db.asked()); n > 1 {
			t.Errorf("the table was asked %d times", n)
		}
		check.OK(t, r.reports.Of(segment.ConditionLoad), "one row made the database count as failing")
		db.put("broken", 1, 10)
		time.Sleep(time.Second)
		r.mustTake(t, "broken", 1, 3)
	})
}

func TestTheLastIDsBelow2To63(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const left = 1005 // with a step of 100, ten segments and a part of one
		db := newTable(100)
		db.put("orders", math.MaxInt64-left, 100)
		r := ready(t, db)
		r.mustTake(t, "orders", math.MaxInt64-left, left)
		for range 10 {
			if id, err := r.one("orders"); !errors.Is(err, model.ErrLimitReached) {
				t.Fatalf("one = %d, %v", id, err)
			}
		}
	})
}
