package segment_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

// A tag works when it is asked for, also one that was added a moment ago; those that are asked for together share a
// statement, and so do names that are no tags. One of these holds up the next statement, a tag none.
func TestTagsAreReadWhenAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100)
		r := ready(t, db)
		reads := db.readCount()
		for i := range 10 { // one after the other
			name := fmt.Sprint("fresh-", i)
			db.put(name, 1, 10)
			r.mustTake(t, name, 1, 2)
		}
		check.Equal(t, db.readCount()-reads, 10, "statements for ten tags")
		for round := range 3 {
			check.Is(t, check.Err(r.one("none")), model.ErrUnknownTag)
			reads, began := db.readCount(), time.Now()
			var callers sync.WaitGroup
			for i := range 400 {
				name := fmt.Sprintf("late-%d-%d", round, i)
				db.put(name, 1, 10)
				callers.Go(func() { r.mustTake(t, name, 1, 1) })
				callers.Go(func() { check.Is(t, check.Err(r.one("no-"+name)), model.ErrUnknownTag) })
			}
			callers.Wait()
			check.Equal(t, db.readCount()-reads, 1, "statements for all of them")
			check.Equal(t, time.Since(began), 100*time.Millisecond, "until then")
		}
		db.put("none", 1, 10)
		time.Sleep(100 * time.Millisecond)
		r.mustTake(t, "none", 1, 1)
		for _, name := range []string{"None", "none ", "nöne"} {
			check.Is(t, check.Err(r.one(name)), model.ErrUnknownTag, name)
		}
	})
}

// What was changed or removed of the tags in use is read once a minute, in statements of 1000 names; Reload reads
// the row of one of them now.
func TestChangesAreReadOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100)
		for i := range 2500 {
			db.put(fmt.Sprint("t", i), 1, 100)
		}
		r := ready(t, db)
		for i := range 2001 {
			r.mustTake(t, fmt.Sprint("t", i), 1, 1)
		}
		reads := db.readCount()
		db.set(func(db *table) {
			for _, name := range []string{"t1000", "t2000", "t2400"} {
				delete(db.rows, name)
			}
		})
		check.OK(t, r.Reload(t.Context(), "t1000"))
		check.OK(t, r.Reload(t.Context(), "t2400"))
		check.Is(t, check.Err(r.one("t1000")), model.ErrUnknownTag, "after Reload")
		check.Equal(t, db.readCount()-reads, 1, "statements of Reload")
		r.mustTake(t, "t2000", 2, 1)
		time.Sleep(61 * time.Second)
		check.Is(t, check.Err(r.one("t2000")), model.ErrUnknownTag, "after a minute")
		check.Equal(t, db.readCount()-reads, 4, "statements")
		check.Equal(t, len(r.Used()), 1999, "tags that are used")
		now := time.Now()
		check.Equal(t, r.NextReload(now).Sub(now), time.Minute, "time to the next reload")
		db.fail(errAway)
		for _, want := range []error{model.ErrSegmentEmpty, errAway} {
			check.Is(t, check.Err(r.one("t2300")), want, "of a tag that was not asked for before")
		}
		check.Is(t, r.Reload(t.Context(), "t1"), errAway)
		time.Sleep(time.Minute)
		check.Is(t, r.reports.Of(segment.ConditionReload), errAway, "reported")
		r.mustTake(t, "t1", 2, 1)
		check.Equal(t, len(r.Used()), 1999, "tags while the table cannot be read")
		db.fail(nil)
		time.Sleep(3 * time.Second)
		check.OK(t, r.reports.Of(segment.ConditionReload), "the table can be read")
	})
}

// What is held of a tag is given up when it is removed, and a segment that was on its way, too. It continues above
// that when it is added again, whatever its row says.
func TestATagThatIsRemovedAndAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "orders", "users")
		r := ready(t, db)
		r.mustTake(t, "orders", 1, 30) // the next segment is held, too
		r.mustTake(t, "users", 1, 1)
		synctest.Wait()
		db.set(func(db *table) { delete(db.rows, "orders") })
		time.Sleep(61 * time.Second)
		check.Is(t, check.Err(r.one("orders")), model.ErrUnknownTag)
		r.mustTake(t, "users", 2, 1)
		check.Equal(t, r.counted("issued"), 32, "IDs issued")
		check.Equal(t, r.counted("wasted"), 170, "IDs given up")
		db.put("orders", 1, 100)
		time.Sleep(2 * time.Second)
		r.mustTake(t, "orders", 201, 100)
		check.Equal(t, r.counted("lifts"), 1, "lifts")

		synctest.Wait() // the next segment is held
		wasted, held, late := r.counted("wasted"), r.view("orders").Held, int64(0)
		db.set(func(db *table) {
			db.change = func(s model.TagSegment) model.TagSegment { // removed and added while its answer is under way
				if late == 0 {
					late = s.End - s.First
					delete(db.rows, "orders")
					db.mu.Unlock()
					check.OK(t, r.Reload(t.Context(), "orders"))
					db.put("orders", 5000, 100)
					check.OK(t, r.Reload(t.Context(), "orders"))
					db.mu.Lock()
				}
				return s
			}
		})
		check.Must(t, check.Err(r.Next(t.Context(), "orders", model.ShardKey{}, int(held)+1, nil)))
		r.mustTake(t, "orders", 5001+held, 3)
		check.Equal(t, r.counted("wasted")-wasted, held+late, "IDs given up with the second removal")
		check.Equal(t, r.counted("repeated"), 0, "repeated")
	})
}

// Every max_id that was read of a tag says that the IDs below it were issued.
func TestEveryMaxIDThatWasReadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := orders(t, 100)
		r.mustTake(t, "orders", 1, 1)
		db.put("orders", 5001, 100)  // by another replica
		time.Sleep(61 * time.Second) // longer than a reload is away
		db.put("orders", 50, 100)    // the database went back in time
		ids := r.batch(t, "orders", 300)
		if id := ids[len(ids)-1]; id < 5001 || slices.Contains(ids, 5000) {
			t.Errorf("ID 5000, or %d, was issued before", id)
		}
	})
}
