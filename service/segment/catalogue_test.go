package segment_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

func TestAHandleSkipsTheNameAndOutlivesARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		r := ready(t, db)
		check.Is(t, check.Err(r.Tag("nobody")), model.ErrUnknownTag, "unknown tag")
		orders, err := r.Tag("orders")
		check.Must(t, err)
		if id, err := orders.One(t.Context()); err != nil || id != 1 {
			t.Fatalf("One = %d, %v", id, err)
		}
		db.set(func(db *table) { delete(db.rows, "orders") })
		time.Sleep(2 * time.Minute)
		if id, err := orders.One(t.Context()); !errors.Is(err, model.ErrUnknownTag) || id != 0 {
			t.Fatalf("One = %d, %v of a removed tag", id, err)
		}
		db.put("orders", 1, 10)
		time.Sleep(2 * time.Minute)
		if ids, err := orders.Next(t.Context(), 3, nil); err != nil || ids[0] != 21 { // [11, 21) was held, too
			t.Fatalf("Next = %v, %v", ids, err)
		}
	})
}

func TestOnlyTheExactNameIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := ready(t, newTable(10, "orders"))
		for _, name := range []string{"Orders", "ORDERS", "orders ", "órders"} {
			if id, err := r.one(name); !errors.Is(err, model.ErrUnknownTag) {
				t.Errorf("%q: %d, %v", name, id, err)
			}
		}
	})
}

func TestAFreshTagWorksWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		r := ready(t, db)
		if _, err := r.one("fresh"); !errors.Is(err, model.ErrUnknownTag) {
			t.Fatalf("unknown tag: %v", err)
		}
		db.put("fresh", 1, 10)
		time.Sleep(600 * time.Millisecond)
		r.mustTake(t, "fresh", 1, 3)
	})
}

func TestABombOfUnknownTagsCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		r := ready(t, db)
		reads, heap := db.readCount(), heapInUse()
		for i := range 100_000 {
			if i%10_000 == 0 {
				time.Sleep(100 * time.Millisecond) // a second in all
			}
			if _, err := r.Next(t.Context(), fmt.Sprintf("bomb-%d", i), 1, nil); !errors.Is(err, model.ErrUnknownTag) {
				t.Fatal(err)
			}
		}
		if n := db.readCount() - reads; n > 3 {
			t.Errorf("the table was read %d times in a second", n)
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
		db := newTable(10, "orders")
		r := ready(t, db)
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

func TestATagAddedAgainGoesOnAboveWhatWasIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 5) // [1, 101) is held
		db.set(func(db *table) { delete(db.rows, "orders") })
		time.Sleep(61 * time.Second)
		db.put("orders", 1, 100)
		time.Sleep(61 * time.Second)
		r.mustTake(t, "orders", 101, 5)
		if got := db.maxID("orders"); got < 201 {
			t.Errorf("max_id is %d", got)
		}
		if s := r.Stats(); s.Lifts != 1 || s.Wasted != 95 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestASegmentOfARemovedRowIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db, func(o *segment.Options) { o.Reload = time.Second })
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

func TestARowRemovedBeforeTheReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders")
		r := ready(t, db)
		db.set(func(db *table) { clear(db.rows) })
		check.Is(t, check.Err(r.one("orders")), model.ErrUnknownTag, "removed tag")
	})
}

// A change that is committed counts as soon as Reload has returned.
func TestReloadTakesAChangeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		r := ready(t, db)
		if id, err := r.one("orders"); err != nil || id != 1 {
			t.Fatal(id, err)
		}
		db.set(func(db *table) { delete(db.rows, "orders") })
		check.Must(t, r.Reload(t.Context()))
		if id, err := r.one("orders"); !errors.Is(err, model.ErrUnknownTag) {
			t.Errorf("got %d, %v of a removed tag", id, err)
		}
		now := time.Now()
		check.Equal(t, r.NextReload(now).Sub(now), time.Minute, "the next reload is in")
	})
}
