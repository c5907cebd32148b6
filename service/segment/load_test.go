package segment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

// The next segment is loaded when a tenth of the current one is used, and no other, as Leaf does.
func TestTheNextSegmentIsLoadedAtATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 200)
		for issued := 1; issued <= 600; issued++ {
			_ = r.batch(t, "orders", 1)
			time.Sleep(time.Minute)
			want := 1
			if issued >= 21 {
				want = 2 + (issued-21)/200
			}
			if n := len(db.segments()); n != want {
				t.Fatalf("%d segments after %d IDs, want %d", n, issued, want)
			}
		}
	})
}

func TestLeafsTuningOfTheStep(t *testing.T) {
	type use struct {
		after time.Duration // since the last load
		row   int64         // the row's step by then; 0: as before
		want  int64         // length of the segment
	}
	const quick, steady, idle = 15*time.Minute - time.Second, 15 * time.Minute, 30 * time.Minute
	for name, c := range map[string]struct {
		maxStep int64
		uses    []use
	}{
		"the first two are of the row's step": {0, []use{{0, 0, 1000}, {time.Second, 0, 1000}, {time.Second, 0, 2000}}},
		"idle from the start": {0, []use{{0, 0, 1000}, {idle, 0, 1000}, {idle, 0, 1000},
			{idle, 0, 1000}}},
		"doubles, keeps, halves": {0, []use{{0, 0, 1000}, {0, 0, 1000}, {quick, 0, 2000}, {quick, 0, 4000},
			{steady, 0, 4000},
			{idle - time.Second, 0, 4000}, {idle, 0, 2000}, {24 * time.Hour, 0, 1000}, {idle, 0, 1000}}},
		"up to the bound": {3000, []use{{0, 0, 1000}, {0, 0, 1000}, {quick, 0, 2000}, {quick, 0, 3000},
			{quick, 0, 3000}, {idle, 0, 1500}}},
		"a row may ask for more": {1500, []use{{0, 0, 1000}, {0, 5000, 5000}, {quick, 0, 5000},
			{idle, 0, 5000}}},
		"a raised row counts at once": {0, []use{{0, 0, 1000}, {0, 1500, 1500}, {quick, 0, 3000},
			{steady, 9000, 9000}, {idle, 0, 9000}}},
		"a lowered row lets the step fall": {0, []use{{0, 0, 1000}, {0, 100, 100}, {idle, 0, 100}, {quick, 0, 200},
			{idle, 0, 100}}},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			// Leaf's rule alone
			db, r := orders(t, 1000, func(o *segment.Options) { o.MaxStep = c.maxStep; o.Runway = 1 })
			for i, u := range c.uses {
				time.Sleep(u.after)
				if u.row != 0 {
					db.put("orders", db.maxID("orders"), u.row)
				}
				for len(db.segments()) <= i {
					_ = r.batch(t, "orders", 1)
					synctest.Wait()
				}
				check.Equal(t, db.lengths()[i], u.want, "IDs of segment", i, "in", db.lengths())
			}
		}))
	}
}

// The goal: with its database away a tag continues for ten minutes at its rate.
func TestTenMinutesWithoutTheDatabase(t *testing.T) {
	for _, c := range []struct {
		count int           // IDs a call
		every time.Duration // between calls
		warm  time.Duration // use before the database goes away
	}{
		{1, time.Minute, time.Hour},                        // one a minute
		{100, 100 * time.Millisecond, 12 * time.Minute},    // 1000/s
		{10_000, 100 * time.Millisecond, 12 * time.Minute}, // 100 000/s: the bound of what is held ahead
	} {
		t.Run(fmt.Sprintf("%d every %v", c.count, c.every), inBubble(func(t *testing.T) {
			db := newTable(2000, "orders")
			db.delay = 30 * time.Millisecond
			r := ready(t, db)
			ids := make([]int64, 0, c.count)
			patient := true
			use := func(d time.Duration) {
				t.Helper()
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(c.every) {
					began := time.Now()
					check.Must(t, check.Err(r.Next(t.Context(), "orders", model.ShardKey{}, c.count, ids)))
					if waited := time.Since(began); !patient && waited > 0 {
						t.Fatalf("a call waited %v", waited)
					}
				}
			}
			use(c.warm)
			if v := r.view("orders"); v.Runway < 590 {
				t.Errorf("%d IDs are held, a runway of %.0f s", v.Held, v.Runway)
			}
			db.fail(errAway)
			asked := len(db.asked())
			patient = false
			use(9*time.Minute + 50*time.Second)
			patient = true
			db.fail(nil)
			time.Sleep(2 * time.Second)
			check.Equal(t, len(db.asked()) > asked, c.every < time.Second, "the database was asked")
			use(time.Minute)
			check.Equal(t, r.counted("wasted"), 0, "IDs given up")
		}))
	}
}

// Callers wait for as long as they may and are told why they got nothing, each for itself. What they did not take is
// there for others. The mode is not ready meanwhile, and is when the database works, without a caller.
func TestWaitingEndsWithTheDeadlineAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100)
		r.mustTake(t, "orders", 1, 5)
		db.fail(errAway)
		canceled, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		short, cancelShort := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancelShort()
		empty := []error{model.ErrSegmentEmpty, errAway}
		var wg sync.WaitGroup
		for _, c := range []struct {
			ctx   context.Context
			want  []error
			after time.Duration
		}{{canceled, []error{context.Canceled}, time.Second}, {short, empty, 300 * time.Millisecond},
			{t.Context(), empty, 2 * time.Second}} {
			wg.Go(func() {
				began := time.Now()
				ids, err := r.Next(c.ctx, "orders", model.ShardKey{}, 96, nil)
				for _, want := range c.want {
					check.Is(t, err, want, "after", c.after)
				}
				if d := time.Since(began); d != c.after || ids != nil {
					t.Errorf("%v after %v, want %v", ids, d, c.after)
				}
			})
		}
		wg.Wait()
		r.mustTake(t, "orders", 6, 95)
		if err := r.Ready(); !errors.Is(err, model.ErrSegmentEmpty) || !errors.Is(err, errAway) {
			t.Errorf("nothing can be had, and the mode is ready: %v", err)
		}
		db.fail(nil)
		time.Sleep(2 * time.Second)
		err := errors.Join(r.Ready(), r.reports.Of(segment.ConditionLoad))
		check.OK(t, err, "the database is back, nobody has asked")
		_ = r.batch(t, "orders", 20)
	})
}

// A table that went back is lifted with the next reading, without a caller; one that readings see while segments are
// taken never counts as such.
func TestATableThatWentBackIsLifted(t *testing.T) {
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
		check.Equal(t, db.maxID("unused"), -7, "max_id of a tag that nobody uses")
		r.mustTake(t, "orders", 151, 1000)
		check.Equal(t, r.counted("lifts"), 1, "lifts")
	})
	synctest.Test(t, func(t *testing.T) {
		db := newTable(1000, "orders")
		db.delay = 7 * time.Millisecond // readings grow old while segments are taken
		r := ready(t, db, func(o *segment.Options) { o.Reload, o.Runway, o.MaxStep = 10*time.Millisecond, 1, 1000 })
		for range 500 {
			r.batch(t, "orders", 999)
			time.Sleep(13 * time.Millisecond)
			if v := r.view("orders"); v.Ahead > 1 {
				t.Fatalf("%d segments are held ahead", v.Ahead)
			}
		}
		check.Equal(t, r.counted("lifts"), 0, "lifts")
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
			db, r := orders(t, 100)
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
			check.Equal(t, r.counted("repeated"), 2, "repeated")
		}))
	}
}

// A row that cannot be used, or is used up to 2^63, costs a call of the table a second, however many ask, and is no
// failure of the database.
func TestARowThatHasNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const left = 1005 // with a step of 100, ten segments and a part of one
		db := newTable(100)
		db.put("broken", 1, 0)
		db.put("orders", math.MaxInt64-left, 100)
		r := ready(t, db)
		r.mustTake(t, "orders", math.MaxInt64-left, left)
		for tag, want := range map[string]error{"orders": model.ErrLimitReached, "broken": model.ErrSegmentEmpty} {
			time.Sleep(2 * time.Second)
			asked := len(db.asked())
			for range 1000 {
				check.Is(t, check.Err(r.one(tag)), want)
			}
			check.Equal(t, len(db.asked())-asked, 1, tag, "calls of the table")
		}
		check.OK(t, r.reports.Of(segment.ConditionLoad), "one row made the database count as failing")
		db.put("broken", 1, 10)
		time.Sleep(1100 * time.Millisecond)
		r.mustTake(t, "broken", 1, 3)
	})
}

// A database that answers no COMMIT for an hour costs a tag a segment and a number for each try, also while nobody
// asks, and the tag is served soon after.
func TestWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 1000)
		r.use(t)
		db.set(func(db *table) { db.lose = true })
		check.Is(t, check.Err(r.one("orders")), errLost)
		time.Sleep(time.Hour)
		if lost := db.maxID("orders") - 1; lost < 3000 || lost > 1000+7200 {
			t.Errorf("%d IDs were lost", lost)
		}
		db.set(func(db *table) { db.lose = false })
		time.Sleep(2 * time.Second)
		_ = r.batch(t, "orders", 500)
		check.OK(t, r.reports.Of(segment.ConditionLoad), "the database answers")
	})
}
