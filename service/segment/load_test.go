package segment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

func TestTheNextSegmentIsLoadedAtATenthAndOnlyThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 2000)
		for _, c := range []struct {
			take, loads int // IDs, and segments taken in all after them
		}{{1, 1}, {199, 1}, {1, 2}, {1799, 2}, {1, 2}, {198, 2}, {300, 3}} {
			_ = r.batch(t, "orders", c.take)
			synctest.Wait()
			check.Equal(t, len(db.segments()), c.loads, "segments after", r.Stats().Issued, "IDs")
		}
	})
}

func TestTheNextSegmentIsLoadedAtPreload(t *testing.T) {
	for share, at := range map[float64]int{0.0001: 2, 0.5: 1001, 0.999: 1999} {
		synctest.Test(t, func(t *testing.T) {
			db, r := orders(t, 2000, func(o *segment.Options) { o.Preload = share })
			for issued := 1; issued <= at; issued++ {
				_ = r.batch(t, "orders", 1)
				synctest.Wait()
				if n := len(db.segments()); (n == 2) != (issued == at) {
					t.Fatalf("preload %v: %d segments after %d IDs", share, n, issued)
				}
			}
		})
	}
}

// Leaf would hold the same: one segment ahead, loaded at a tenth of the current.
func TestALowRateLoadsNoMoreThanLeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step, day = 2000, 24 * 60
		db, r := orders(t, step)
		for i := range 3 * day { // one a minute
			_ = r.batch(t, "orders", 1)
			time.Sleep(time.Minute)
			if n, leafs := len(db.segments()), 1+(i+1+step*9/10)/step; n > leafs {
				t.Fatalf("%d segments after %d IDs, want %d", n, i+1, leafs)
			}
		}
		for i, n := range db.lengths() {
			check.Equal(t, n, step, "segment", i, "has IDs")
		}
	})
}

func TestABurstOfASecondHoldsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := orders(t, 2000)
		_ = r.batch(t, "orders", 10_000)
		time.Sleep(time.Hour)
		if v := r.Views()[0]; v.Held > 30_000 {
			t.Errorf("%d IDs are held after a burst of 10 000", v.Held)
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
		"idle from the start":                 {0, []use{{0, 0, 1000}, {idle, 0, 1000}, {idle, 0, 1000}, {idle, 0, 1000}}},
		"doubles, keeps, halves": {0, []use{{0, 0, 1000}, {0, 0, 1000}, {quick, 0, 2000}, {quick, 0, 4000}, {steady, 0, 4000},
			{idle - time.Second, 0, 4000}, {idle, 0, 2000}, {24 * time.Hour, 0, 1000}, {idle, 0, 1000}}},
		"up to the bound":                  {3000, []use{{0, 0, 1000}, {0, 0, 1000}, {quick, 0, 2000}, {quick, 0, 3000}, {quick, 0, 3000}, {idle, 0, 1500}}},
		"a row may ask for more":           {1500, []use{{0, 0, 1000}, {0, 5000, 5000}, {quick, 0, 5000}, {idle, 0, 5000}}},
		"a raised row counts at once":      {0, []use{{0, 0, 1000}, {0, 1500, 1500}, {quick, 0, 3000}, {steady, 9000, 9000}, {idle, 0, 9000}}},
		"a lowered row lets the step fall": {0, []use{{0, 0, 1000}, {0, 100, 100}, {idle, 0, 100}, {quick, 0, 200}, {idle, 0, 100}}},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			db, r := orders(t, 1000, func(o *segment.Options) { o.MaxStep = c.maxStep; o.Runway = 1 }) // Leaf's rule alone
			for i, u := range c.uses {
				time.Sleep(u.after)
				if u.row != 0 {
					db.set(func(db *table) {
						db.rows["orders"] = model.Tag{Name: "orders", MaxID: db.rows["orders"].MaxID, Step: u.row}
					})
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

// The goal: with its database away a tag goes on for ten minutes at its rate.
func TestTenMinutesWithoutTheDatabase(t *testing.T) {
	for _, c := range []struct {
		count int           // IDs a call
		every time.Duration // between calls
		warm  time.Duration // use before the database goes away
	}{
		{1, time.Minute, time.Hour},                        // one a minute
		{1, 100 * time.Millisecond, 12 * time.Minute},      // 10/s
		{100, 100 * time.Millisecond, 12 * time.Minute},    // 1000/s
		{10_000, 100 * time.Millisecond, 12 * time.Minute}, // 100 000/s: the bound of what is held ahead
	} {
		t.Run(fmt.Sprintf("%d every %v", c.count, c.every), inBubble(func(t *testing.T) {
			db := newTable(2000, "orders")
			db.delay = 30 * time.Millisecond
			r := ready(t, db)
			ids := make([]int64, 0, c.count)
			use := func(d time.Duration) {
				t.Helper()
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(c.every) {
					check.Must(t, check.Err(r.Next(t.Context(), "orders", c.count, ids)))
				}
			}
			use(c.warm)
			held, runway := r.Views()[0].Held, r.Views()[0].Runway
			if runway < 590 {
				t.Errorf("%d IDs are held, a runway of %.0f s", held, runway)
			}
			db.fail(errAway)
			waits := r.Stats().Waits
			use(9*time.Minute + 50*time.Second)
			if n := r.Stats().Waits - waits; n > 0 {
				t.Errorf("%d calls waited while the database was away", n)
			}
			db.fail(nil)
			time.Sleep(2 * time.Second)
			if s := r.Stats(); s.FailedLoads == 0 && c.every < time.Second {
				t.Errorf("the database was not even asked: %+v", s)
			}
			use(time.Minute)
			if s := r.Stats(); s.Refused != 0 || s.Wasted != 0 {
				t.Errorf("stats: %+v", s)
			}
		}))
	}
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := orders(t, 10, func(o *segment.Options) { o.MaxStep = 1000; o.Runway = 24 * time.Hour })
		for range 100 {
			_ = r.batch(t, "orders", 10_000)
			time.Sleep(100 * time.Millisecond)
		}
		if v := r.Views()[0]; v.Held < 60_000 || v.Held > 70_000 {
			t.Errorf("%d blocks with %d IDs are held", v.Ahead, v.Held)
		}
	})
}

// 64 callers, a database that takes 30 ms, step 2000: nobody fails, and nobody
// waits for longer than the database takes once.
func Test64CallersAndASlowDatabase(t *testing.T) {
	const latency = 30 * time.Millisecond
	for name, pause := range map[string]time.Duration{"6 400/s": 10 * time.Millisecond, "64 000/s": time.Millisecond, "1 280 000/s": 50 * time.Microsecond} {
		t.Run(name, inBubble(func(t *testing.T) {
			db, r := orders(t, 2000)
			db.set(func(db *table) { db.delay = latency })
			var wg sync.WaitGroup
			got := make([][]int64, 64)
			for i := range got {
				wg.Go(func() {
					for range 1500 {
						began := time.Now()
						id, err := r.one("orders")
						if waited := time.Since(began); err != nil || waited > latency {
							t.Errorf("%v after %v", err, waited)
							return
						}
						got[i] = append(got[i], id)
						time.Sleep(pause)
					}
				})
			}
			wg.Wait()
			checkDistinct(t, got, 64*1500)
			t.Logf("%d segments, %d waits", len(db.segments()), r.Stats().Waits)
		}))
	}
}

func TestWaitersGetWhatTheyNeedInOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10)
		db.set(func(db *table) { db.delay = 30 * time.Millisecond })
		var wg sync.WaitGroup
		began := time.Now()
		for range 100 {
			wg.Go(func() { _ = r.batch(t, "orders", 1000) })
		}
		wg.Wait()
		// The load in flight was asked for by the first of them, the next by all.
		if d := time.Since(began); d > 60*time.Millisecond {
			t.Errorf("100 batches took %v", d)
		}
	})
}

func TestWaitingEndsWithTheDeadlineAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10)
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
		}{{canceled, []error{context.Canceled}, time.Second}, {short, empty, 300 * time.Millisecond}, {t.Context(), empty, 2 * time.Second}} {
			wg.Go(func() {
				began := time.Now()
				ids, err := r.Next(c.ctx, "orders", 2, nil)
				for _, want := range c.want {
					check.Is(t, err, want, "after", c.after)
				}
				if d := time.Since(began); d != c.after || ids != nil {
					t.Errorf("%v after %v, want %v", ids, d, c.after)
				}
			})
		}
		wg.Wait()
		check.Equal(t, r.Stats().Starved, 2, "starved")
		if err := r.Ready(); !errors.Is(err, model.ErrSegmentEmpty) || !errors.Is(err, errAway) {
			t.Errorf("nothing can be had, and the mode is ready: %v", err)
		}
		db.fail(nil)
		time.Sleep(2 * time.Second)
		check.OK(t, errors.Join(r.Ready(), r.reports.Of(segment.ConditionLoad)),
			"the database is back, nobody has asked")
		r.mustTake(t, "orders", 1, 20) // nothing went to those who left
	})
}

func TestWaitersAreServedSoonAfterTheDatabaseReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10, func(o *segment.Options) { o.Timeout = time.Hour })
		db.fail(errAway)
		var back time.Time
		time.AfterFunc(5*time.Minute, func() { back = time.Now(); db.fail(nil) })
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { _ = r.batch(t, "orders", 2) })
		}
		wg.Wait()
		if d := time.Since(back); d > time.Second {
			t.Errorf("served %v after the database's return", d)
		}
		if n := len(db.asked()); n < 250 || n > 700 {
			t.Errorf("the table was asked %d times in five minutes", n)
		}
		check.OK(t, r.reports.Of(segment.ConditionLoad), "reported")
	})
}

func TestAHangingConnectionDoesNotKeepTheNextFromServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10, func(o *segment.Options) { o.Timeout = time.Minute })
		db.set(func(db *table) { db.delay = time.Hour })
		go func() {
			time.Sleep(time.Second)
			db.set(func(db *table) { db.delay = 0 })
		}()
		began := time.Now()
		_ = r.batch(t, "orders", 1)
		if d := time.Since(began); d > 2*time.Second+100*time.Millisecond {
			t.Errorf("served after %v", d)
		}
	})
}

// A call that fails has taken nothing: what was left goes to others.
func TestABatchThatFailsTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100)
		_ = r.batch(t, "orders", 5)
		db.fail(errAway)
		if ids, err := r.Next(t.Context(), "orders", 96, nil); !errors.Is(err, model.ErrSegmentEmpty) || ids != nil {
			t.Fatalf("Next = %v, %v", ids, err)
		}
		r.mustTake(t, "orders", 6, 95)
		if s := r.Stats(); s.Refused != 1 || s.Waits != 2 || s.Issued != 100 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestALargeBatchIsNotStarvedBySmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		db.delay = 10 * time.Millisecond
		r := ready(t, db, func(o *segment.Options) { o.MaxStep = 10 })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = r.Next(ctx, "orders", 1, nil)
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		_ = r.batch(t, "orders", model.MaxBatch)
		if d := time.Since(began); d > 50*time.Millisecond {
			t.Errorf("the batch took %v", d)
		}
		cancel()
		wg.Wait()
	})
}

// checkDistinct checks that every caller's IDs rise, and none came twice.
func checkDistinct(t *testing.T, byCaller [][]int64, want int) {
	t.Helper()
	var all []int64
	for i, ids := range byCaller {
		if !slices.IsSorted(ids) {
			t.Errorf("caller %d: IDs do not rise", i)
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != want || len(all) != want || all[0] < 1 {
		t.Errorf("%d distinct of %d IDs, want %d; the lowest is %d", n, len(all), want, all[0])
	}
}

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
		check.Equal(t, db.maxID("unused"), -7, "max_id of a tag that nobody uses")
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
			check.Equal(t, r.Stats().Repeated, 2, "stats")
		}))
	}
}

func TestALostAnswerIsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100)
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
		time.Sleep(1100 * time.Millisecond)
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

// Two processes, many goroutines, segments so short that nearly every call meets
// the end of one: IDs, batches and runs of one tag. No ID comes twice, callers' IDs rise, and
// all that were committed are issued or given up.
func TestNeverTwiceUnderStress(t *testing.T) {
	for _, step := range []int64{1, 7, 64} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			db := newTable(step, "orders")
			short := func(o *segment.Options) { o.MaxStep = 50; o.Timeout = 20 * time.Second }
			replicas := []replica{ready(t, db, short), ready(t, db, short)}
			got := make([]stressed, 16)
			var wg sync.WaitGroup
			for i := range got {
				wg.Go(func() { check.OK(t, got[i].run(t.Context(), replicas[i%2], i, step)) })
			}
			wg.Wait()
			var byCaller [][]int64
			want := 0
			for _, s := range got {
				want += len(s.ids) + len(s.ofRuns)
				slices.Sort(s.ofRuns) // one may begin above IDs that are still held
				byCaller = append(byCaller, s.ids, s.ofRuns)
			}
			checkDistinct(t, byCaller, want)
			issued, wasted := int64(0), int64(0)
			for _, r := range replicas {
				stop(t, r.Service)
				s := r.Stats()
				issued, wasted = issued+s.Issued, wasted+s.Wasted
				check.Equal(t, s.Refused+s.Repeated+s.Lifts, 0, "stats", s)
			}
			if committed := db.maxID("orders") - 1; issued != int64(want) || issued+wasted != committed {
				t.Errorf("%d came, %d were counted and %d given up, of %d", want, issued, wasted, committed)
			}
		})
	}
}

// stressed is what one caller of a stress got.
type stressed struct{ ids, ofRuns []int64 }

// run takes one ID, a batch, and now and then a run.
func (s *stressed) run(ctx context.Context, r replica, caller int, step int64) (err error) {
	for j := 0; j < 2000 && err == nil; j++ {
		var id, first, last int64
		if id, err = r.one("orders"); err == nil {
			s.ids = append(s.ids, id)
		}
		if n := (caller + j) % 13; n > 0 && err == nil {
			s.ids, err = r.Next(ctx, "orders", n, s.ids)
			continue
		}
		if first, last, err = r.Run(ctx, "orders"); err == nil && (last < first || last-first >= step) {
			err = fmt.Errorf("a run from %d to %d", first, last)
		}
		for ; err == nil && first <= last; first++ {
			s.ofRuns = append(s.ofRuns, first)
		}
	}
	return err
}

// Callers race with a tag that is removed and added again, below what was issued.
func TestNeverTwiceWhileATagComesAndGoes(t *testing.T) {
	db, r := orders(t, 50, func(o *segment.Options) { o.Reload = time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := make([][]int64, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			for ctx.Err() == nil {
				if len(got[i]) > 2000 {
					time.Sleep(time.Millisecond) // slower than the removal is noticed, which then finds IDs held
				}
				ids, err := r.Next(ctx, "orders", 1+len(got[i])%5, got[i])
				if err != nil && ctx.Err() == nil && !errors.Is(err, model.ErrUnknownTag) {
					t.Error(err)
				}
				got[i] = ids
			}
		})
	}
	issued := func(more int64) { // those who met no row look for one again after half a second
		for enough := r.Stats().Issued + more; r.Stats().Issued < enough && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
	}
	for s := r.Stats(); (s.Lifts < 3 || s.Wasted == 0) && ctx.Err() == nil; s = r.Stats() {
		issued(1000)
		db.set(func(db *table) { delete(db.rows, "orders") })
		for r.Known("orders") && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		db.put("orders", 1, 50)
	}
	cancel()
	wg.Wait()
	want := 0
	for _, ids := range got {
		want += len(ids)
	}
	if want < 1000 {
		t.Fatalf("%d IDs only", want)
	}
	checkDistinct(t, got, want)
	s := r.Stats()
	if s.Issued != int64(want) || s.Repeated != 0 || s.Wasted == 0 || s.Lifts == 0 {
		t.Errorf("%d IDs, stats: %+v", want, s)
	}
}
