package segment_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

func TestTheFirstIDIs1AndIDsAreDense(t *testing.T) {
	for _, maxID := range []int64{1, -50} {
		synctest.Test(t, func(t *testing.T) {
			db := newTable(100)
			db.put("orders", maxID, 100)
			r := ready(t, db)
			r.mustTake(t, "orders", 1, 1000)
			if s := r.Stats(); s.Issued != 1000 || s.Wasted != 0 || s.Repeated != 0 || s.Lifts != 0 {
				t.Errorf("stats: %+v", s)
			}
		})
	}
}

func TestABatchSpansSegments(t *testing.T) {
	for _, step := range []int64{1, 7, 100, 9_999, 10_000, 100_000} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := ready(t, newTable(step, "orders"), func(o *segment.Options) { o.MaxStep = 50 })
				next := int64(1)
				for _, n := range []int{1, 3, model.MaxBatch, 2, 100, model.MaxBatch} {
					for _, id := range r.batch(t, "orders", n) {
						if id != next {
							t.Fatalf("ID %d, want %d", id, next)
						}
						next++
					}
				}
			})
		})
	}
}

func TestIDsAreAppendedAndErrorsAppendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ready(t, newTable(10, "orders"))
		for _, n := range []int{1, 2} {
			ids, err := r.Next(t.Context(), "orders", n, []int64{42})
			if err != nil || len(ids) != 1+n || ids[0] != 42 {
				t.Fatalf("Next = %v, %v", ids, err)
			}
			ids, err = r.Next(t.Context(), "nobody", n, []int64{42})
			if err == nil || len(ids) != 1 {
				t.Fatalf("Next = %v, %v", ids, err)
			}
		}
	})
}

func TestInvalidArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ready(t, newTable(10, "orders"))
		for _, c := range []struct {
			tag   string
			count int
		}{
			{"", 1}, {strings.Repeat("x", 129), 1}, {"\xff", 1},
			{"orders", 0}, {"orders", -1}, {"orders", model.MaxBatch + 1},
		} {
			if ids, err := r.Next(t.Context(), c.tag, c.count, nil); !errors.Is(err, model.ErrInvalidArgument) || ids != nil {
				t.Errorf("Next(%.10q, %d) = %v, %v", c.tag, c.count, ids, err)
			}
		}
	})
}

func TestInvalidOptions(t *testing.T) {
	for _, o := range []segment.Options{
		{}, {Timeout: -1}, {Timeout: 1, MaxStep: -1}, {Timeout: 1, MaxStep: model.MaxTagStep + 1},
		{Timeout: 1, Runway: -1}, {Timeout: 1, Preload: 1}, {Timeout: 1, Preload: -0.1}, {Timeout: 1, Preload: math.NaN()},
		{Timeout: 1, Reload: -1},
	} {
		check.Is(t, check.Err(segment.New(o)), model.ErrInvalidArgument, "New", o)
	}
}

func TestNotReadyUntilTheTagsWereRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		db.fail(errAway)
		r := start(t, db)
		time.Sleep(time.Minute)
		_, byKey := r.one("orders")
		for _, err := range []error{r.Ready(), byKey} {
			if !errors.Is(err, model.ErrNotReady) || !errors.Is(err, errAway) {
				t.Errorf("not ready: %v", err)
			}
		}
		db.fail(nil)
		time.Sleep(time.Second)
		r.mustTake(t, "orders", 1, 5)
	})
}

func TestTheViewIsLeafs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ready(t, newTable(100, "orders", "a"))
		want := func(when string, pos int, next bool, buffers ...int64) {
			t.Helper()
			synctest.Wait()
			v := r.Views()[1]
			if v.Name != "orders" || v.InitOK != (when != "before") || v.Pos != pos || v.NextReady != next || !slices.Equal([]int64{v.Value0, v.Step0, v.Max0, v.Value1, v.Step1, v.Max1}, buffers) {
				t.Errorf("%s: %+v", when, v)
			}
		}
		want("before", 0, false, 0, 0, 0, 0, 0, 0)
		r.mustTake(t, "orders", 1, 9)
		want("first", 0, false, 10, 100, 101, 0, 0, 0)
		r.mustTake(t, "orders", 10, 2)
		want("a tenth used", 0, true, 12, 100, 101, 101, 100, 201)
		r.mustTake(t, "orders", 12, 90)
		want("switched", 1, false, 101, 100, 101, 102, 100, 201)
		if v := r.Views()[1]; v.Held != 99 || v.LastLoad.IsZero() || v.Runway != (365*24*time.Hour).Seconds() {
			t.Errorf("%+v", v)
		}
		time.Sleep(time.Second)
		if v := r.Views()[1]; math.Abs(v.Rate-101) > 1 || v.Runway < float64(v.Held)/102 || v.Runway > float64(v.Held)/100 {
			t.Errorf("%+v", v)
		}
	})
}

// What was loaded after an outage, when no caller waits any more, is in the first buffer: nothing
// shows a segment of no length. What a jump left out is shown of its tag.
func TestViewAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db, func(o *segment.Options) { o.Timeout = 200 * time.Millisecond })
		if v := r.Views()[0]; v.Step != 100 || v.Held != 0 || v.Runway != 0 || v.InitOK {
			t.Errorf("before: %+v", v)
		}
		db.set(func(t *table) {
			t.delay = 300 * time.Millisecond // the caller does not wait for so long
			t.change = func(s model.TagSegment) model.TagSegment {
				s.First, s.End, s.Jumped = s.First+5000, s.End+5000, 5000
				return s
			}
		})
		check.Is(t, check.Err(r.one("orders")), model.ErrSegmentEmpty, "during the outage")
		time.Sleep(time.Second)
		v := r.Views()[0]
		got := []int64{v.Value0, v.Step0, v.Max0, v.Value1, v.Step1, v.Max1, v.Held, v.Step}
		if !slices.Equal(got, []int64{5001, 100, 5101, 0, 0, 0, 100, 100}) || !v.InitOK || v.NextReady || v.Ahead != 0 || v.Pos != 0 || v.Jumped != 5000 {
			t.Errorf("after it: %+v", v)
		}
		if s := r.Stats(); s.Jumps != 1 || s.Jumped != v.Jumped || s.MostJumped != "orders" {
			t.Errorf("after it: %+v", s)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders", "slow")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 5)
		db.fail(errAway)
		waited := make(chan error)
		go func() {
			_, err := r.Next(context.Background(), "slow", 2, nil)
			waited <- err
		}()
		synctest.Wait()
		for range 2 {
			stop(t, r.Service)
		}
		check.Is(t, <-waited, model.ErrNotReady, "the waiter")
		for range 3 {
			id, err := r.one("orders")
			ids, batchErr := r.Next(t.Context(), "orders", 2, nil)
			if !errors.Is(err, model.ErrNotReady) || !errors.Is(batchErr, model.ErrNotReady) || id != 0 || ids != nil {
				t.Errorf("after Stop: %d, %v, %v, %v", id, err, ids, batchErr)
			}
		}
		if s := r.Stats(); s.Issued != 5 || s.Wasted != 95 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestStopBeforeStartAndWhileTheDatabaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := segment.New(segment.Options{Table: newTable(1), Timeout: time.Second})
		check.Must(t, err)
		stop(t, s)
		s.Start()
		db, r := orders(t, 100)
		db.set(func(db *table) { db.delay = time.Hour })
		go func() { _, _ = r.one("orders") }()
		synctest.Wait()
		began := time.Now()
		stop(t, r.Service)
		if d := time.Since(began); d > time.Second {
			t.Errorf("Stop took %v", d)
		}
	})
}

func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &deaf{table: newTable(100, "orders"), answer: make(chan struct{})}
		r := ready(t, db)
		go func() { _, _ = r.one("orders") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Is(t, r.Stop(ctx), context.DeadlineExceeded, "Stop")
		close(db.answer)
	})
}

// deaf is a table that does not heed a context.
type deaf struct {
	*table
	answer chan struct{}
}

func (d *deaf) AllocateTag(_ context.Context, req model.TagRequest) (model.TagSegment, error) {
	<-d.answer
	return d.table.AllocateTag(context.Background(), req)
}

// Every load is timed, a failed one too, and callers that got none for want of a
// segment are counted apart from those who asked for what there is not.
func TestStatsOfLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "a")
		db.put("full", math.MaxInt64, 100)
		db.set(func(t *table) { t.delay = 30 * time.Millisecond })
		r := ready(t, db)
		check.Must(t, check.Err(r.Next(context.Background(), "a", 1, nil)))
		if s := r.Stats(); s.Loads != 1 || s.LoadTimes.Count() != 1 || s.LoadTimes.Sum < 30*time.Millisecond || s.Starved != 0 {
			t.Errorf("%+v", s)
		}
		check.Is(t, check.Err(r.Next(context.Background(), "full", 1, nil)), model.ErrLimitReached,
			"of a tag that is used up")
		db.fail(errAway)
		check.Is(t, check.Err(r.Next(context.Background(), "a", 5000, nil)), model.ErrSegmentEmpty,
			"with the database away")
		if s := r.Stats(); s.Starved != 1 || s.FailedLoads == 0 || s.LoadTimes.Count() != s.Loads {
			t.Errorf("%+v", s)
		}
	})
}

func TestATagThatIsRemovedAndAddedAgainGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10)
		if id, err := r.one("orders"); err != nil || id != 1 {
			t.Fatalf("One = %d, %v", id, err)
		}
		db.set(func(db *table) { delete(db.rows, "orders") })
		time.Sleep(2 * time.Minute)
		if id, err := r.one("orders"); !errors.Is(err, model.ErrUnknownTag) || id != 0 {
			t.Fatalf("One = %d, %v of a removed tag", id, err)
		}
		db.put("orders", 1, 10)
		time.Sleep(2 * time.Minute)
		if ids, err := r.Next(t.Context(), "orders", 3, nil); err != nil || ids[0] != 11 {
			t.Fatalf("Next = %v, %v", ids, err)
		}
		if s := r.Stats(); s.Lifts != 1 || s.Wasted != 9 || db.maxID("orders") < 21 {
			t.Errorf("max_id is %d, stats: %+v", db.maxID("orders"), s)
		}
	})
}

func TestOnlyTheExactNameIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ready(t, newTable(10, "orders"))
		for _, name := range []string{"Orders", "ORDERS", "orders ", "órders"} {
			check.Is(t, check.Err(r.one(name)), model.ErrUnknownTag, name)
		}
	})
}

func TestABombOfUnknownTagsCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10)
		reads, heap, began := db.readCount(), int64(0), time.Now()
		for round := range 5 {
			if round == 1 {
				heap = heapInUse() // what the callers themselves take is there
			}
			var callers sync.WaitGroup
			for i := range 3000 { // three lookups have room for them
				callers.Go(func() {
					_, err := r.Next(t.Context(), fmt.Sprintf("bomb-%d-%d", round, i), 1, nil)
					check.Is(t, err, model.ErrUnknownTag)
				})
			}
			callers.Wait()
		}
		if n, took := db.readCount()-reads, time.Since(began); n > 2+int(took/(500*time.Millisecond)) {
			t.Errorf("the table was read %d times in %v", n, took)
		}
		if grown := heapInUse() - heap; grown > 1<<20 {
			t.Errorf("memory grew by %d bytes", grown)
		}
	})
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestUnknownWhileTheTableCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 10)
		db.fail(errAway)
		if _, err := r.one("fresh"); !errors.Is(err, model.ErrSegmentEmpty) || !errors.Is(err, errAway) {
			t.Errorf("unknown tag: %v", err)
		}
		check.Is(t, r.reports.Of(segment.ConditionReload), errAway, "reported")
		db.fail(nil)
		time.Sleep(3 * time.Second) // the next reading is due in a minute
		check.OK(t, r.reports.Of(segment.ConditionReload), "the database is back, nobody has asked")
	})
}

func TestARemovedTagVanishesAndWhatWasHeldIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders", "users")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 30) // the next segment is held, too
		r.mustTake(t, "users", 1, 1)
		synctest.Wait()
		db.set(func(db *table) { delete(db.rows, "orders") })
		time.Sleep(61 * time.Second)
		check.Is(t, check.Err(r.one("orders")), model.ErrUnknownTag, "removed tag")
		r.mustTake(t, "users", 2, 1)
		if s := r.Stats(); s.Issued != 32 || s.Wasted != 170 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestAnEmptiedTableEmptiesTheCacheAndAFailedReadKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders", "users")
		r := ready(t, db)
		db.fail(errAway)
		time.Sleep(2 * time.Minute)
		check.Equal(t, len(r.Views()), 2, "tags while the table cannot be read")
		db.set(func(db *table) { db.err = nil; clear(db.rows) })
		time.Sleep(61 * time.Second)
		if n := len(r.Views()); n != 0 || r.Ready() != nil {
			t.Errorf("%d tags, ready: %v", n, r.Ready())
		}
		check.OK(t, r.reports.Of(segment.ConditionReload), "reported")
	})
}

func TestASegmentOfARemovedRowIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100, func(o *segment.Options) { o.Reload = time.Second })
		time.Sleep(500 * time.Millisecond) // between two reloads
		var first int64
		db.set(func(db *table) {
			db.change = func(s model.TagSegment) model.TagSegment { // removed and added while its answer is under way
				if first == 0 {
					first = s.First
					delete(db.rows, "orders")
					db.mu.Unlock()
					time.Sleep(time.Second)
					db.put("orders", 500, 100)
					time.Sleep(time.Second)
					db.mu.Lock()
				}
				return s
			}
		})
		check.Is(t, check.Err(r.one("orders")), model.ErrUnknownTag, "while it was removed")
		time.Sleep(3 * time.Second)
		r.mustTake(t, "orders", 500, 3)
		if s := r.Stats(); s.Wasted != 100 || s.Repeated != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// A change that is committed counts as soon as Reload has returned, and for who holds nothing
// before that.
func TestReloadTakesAChangeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders", "unused")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 1)
		db.set(func(db *table) { clear(db.rows) })
		check.Is(t, check.Err(r.one("unused")), model.ErrUnknownTag, "of a removed tag")
		check.Must(t, r.Reload(t.Context(), "orders"))
		check.Is(t, check.Err(r.one("orders")), model.ErrUnknownTag, "of a removed tag that held IDs")
		now := time.Now()
		check.Equal(t, r.NextReload(now).Sub(now), time.Minute, "time to the next reload")
	})
}
