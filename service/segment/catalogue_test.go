package segment_test

import (
	"errors"
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

// manyTags is a table of n tags, t00000 and so on, that is read in parts.
func manyTags(n, part int) *table {
	db := newTable(100)
	db.part = part
	for i := range n {
		name := fmt.Sprintf("t%05d", i)
		db.rows[name] = model.Tag{Name: name, MaxID: 1, Step: 100}
	}
	return db
}

// names are those of the tags that a replica shows.
func (r replica) names() (names []string) {
	for _, v := range r.Views() {
		names = append(names, v.Name)
	}
	return names
}

// A reading that fails goes on where it was, and only its end says which tags are gone.
func TestTagsAreReadInPartsAndAReadingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := manyTags(95, 10)
		db.failRead = 5
		r := ready(t, db)
		synctest.Wait()
		check.Equal(t, len(r.names()), 40, "tags before the database went away")
		check.Is(t, r.reports.Of(segment.ConditionReload), errAway, "reported")
		db.fail(nil)
		time.Sleep(3 * time.Second)
		check.OK(t, r.reports.Of(segment.ConditionReload), "reported when the rest was read")
		names := r.names()
		if len(names) != 95 || !slices.IsSorted(names) {
			t.Errorf("%d tags: %v", len(names), names)
		}
		if want := append(db.starts(10), "t00039"); !slices.Equal(sorted(db.afters), sorted(want)) {
			t.Errorf("readings began after %v, want %v", db.afters, want)
		}

		db.set(func(db *table) {
			delete(db.rows, "t00003")
			delete(db.rows, "t00090")
			db.failRead = db.reads + 5
		})
		time.Sleep(time.Minute)
		check.Equal(t, len(r.names()), 95, "tags in the middle of a reading")
		db.fail(nil)
		time.Sleep(3 * time.Second)
		for i, name := range []string{"t00003", "t00090"} {
			check.Is(t, check.Err(r.one(name)), model.ErrUnknownTag, "removed tag", i)
		}
		check.Equal(t, len(r.names()), 93, "tags after the reading")
		r.mustTake(t, "t00094", 1, 3)
	})
}

// starts are the names after which parts of so many rows begin.
func (t *table) starts(part int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	starts := []string{""}
	for i := part - 1; i < len(t.rows)-1; i += part {
		starts = append(starts, fmt.Sprintf("t%05d", i))
	}
	return starts
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// Before all tags were read the first time, each works when it is asked for, and one that
// does not exist is known not to.
func TestATagWorksBeforeAllWereRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := manyTags(2000, 1)
		db.delay = 100 * time.Millisecond // 200 s in all
		r := ready(t, db)
		began := time.Now()
		r.mustTake(t, "t01999", 1, 2)
		if d := time.Since(began); d > 500*time.Millisecond {
			t.Errorf("the last tag worked after %v", d)
		}
		var wg sync.WaitGroup
		reads := db.readCount()
		for i := range 500 {
			wg.Go(func() {
				if id, err := r.one(fmt.Sprintf("t%05d", 1000+i)); err != nil || id != 1 {
					t.Errorf("tag %d: %d, %v", 1000+i, id, err)
				}
				check.Is(t, check.Err(r.one(fmt.Sprint("none-", i))), model.ErrUnknownTag, "a tag that is not there")
			})
		}
		wg.Wait()
		if n := db.readCount() - reads; n > 20 {
			t.Errorf("500 tags and 500 names cost %d readings", n)
		}
		time.Sleep(5 * time.Minute)
		check.Equal(t, len(r.names()), 2000, "tags after the first reading")
		r.mustTake(t, "t01999", 3, 2)
	})
}

// A name that has no row holds up lookups of others for half a second, which wait, and share
// one then. One that has a row holds up none.
func TestFreshTagsWorkOneAfterTheOther(t *testing.T) {
	for _, part := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			db := newTable(10, "orders", "users")
			db.part = part
			r := ready(t, db)
			synctest.Wait()
			for i := range 20 {
				name := fmt.Sprint("fresh-", i)
				db.put(name, 1, 10)
				r.mustTake(t, name, 1, 1)
			}
			check.Is(t, check.Err(r.one("none")), model.ErrUnknownTag)
			reads, began := db.readCount(), time.Now()
			var callers sync.WaitGroup
			for i := range 20 {
				name := fmt.Sprint("late-", i)
				db.put(name, 1, 10)
				callers.Go(func() { r.mustTake(t, name, 1, 1) })
			}
			callers.Wait()
			check.Equal(t, db.readCount()-reads, 1, "readings for all of them")
			check.Equal(t, time.Since(began), 500*time.Millisecond, "until then")
			db.put("none", 1, 10)
			time.Sleep(600 * time.Millisecond)
			r.mustTake(t, "none", 1, 1)
		})
	}
}

// A table that outgrows one part is read by names from then on.
func TestATableOutgrowsOnePart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := manyTags(10, 10)
		r := ready(t, db)
		db.put("z", 1, 10)
		r.mustTake(t, "z", 1, 1)
		db.set(func(db *table) { delete(db.rows, "t00003") })
		time.Sleep(3 * time.Minute) // the reading that is under way had met it; one may begin right now
		check.Equal(t, len(r.names()), 10, "tags")
	})
}

// Lookups fail while the table cannot be read, and the names are looked for afterwards.
func TestALookupThatFailsIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := manyTags(200, 1)
		db.delay = 100 * time.Millisecond
		r := ready(t, db)
		db.fail(errAway)
		err := check.Err(r.one("t00199"))
		if !errors.Is(err, model.ErrSegmentEmpty) || !errors.Is(err, errAway) {
			t.Errorf("a tag that was not read: %v", err)
		}
		db.fail(nil)
		r.mustTake(t, "t00199", 1, 1)
	})
}

// Reload costs one reading of one row, however many tags there are.
func TestReloadReadsOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := manyTags(100, 10)
		r := ready(t, db)
		synctest.Wait()
		reads := db.readCount()
		db.put("new", 1, 10)
		db.set(func(db *table) { delete(db.rows, "t00050") })
		for _, name := range []string{"new", "t00050", "nobody"} {
			check.OK(t, r.Reload(t.Context(), name))
		}
		check.Equal(t, db.readCount()-reads, 3, "readings")
		check.Equal(t, len(r.names()), 100, "tags")
		r.mustTake(t, "new", 1, 1)
		db.fail(errAway)
		check.Is(t, r.Reload(t.Context(), "new"), errAway)
		check.Is(t, r.reports.Of(segment.ConditionReload), errAway, "reported")
	})
}

// Every max_id ever read says that the IDs below it were handed out, of a tag that nobody
// has used, too, and of one that was removed meanwhile.
func TestEveryMaxIDThatWasReadCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100)
		names := []string{"idle", "lower", "gone", "used"}
		for _, name := range names {
			db.put(name, 1, 100)
		}
		r := ready(t, db)
		r.mustTake(t, "used", 1, 1)
		for _, name := range names {
			db.put(name, 5001, 100) // by another replica
		}
		time.Sleep(time.Minute)
		for _, name := range names {
			db.put(name, 50, 100) // the database went back in time
		}
		first := map[string]int64{}
		first["idle"], _ = r.one("idle")
		db.set(func(db *table) { delete(db.rows, "gone") })
		time.Sleep(time.Minute)
		check.Is(t, check.Err(r.one("gone")), model.ErrUnknownTag)
		db.put("gone", 1, 100)
		time.Sleep(time.Minute)
		first["lower"], _ = r.one("lower")
		first["gone"], _ = r.one("gone")
		ids := r.batch(t, "used", 300) // what is held, and more
		first["used"] = ids[len(ids)-1]
		for _, name := range names {
			if first[name] < 5001 {
				t.Errorf("%s: ID %d was handed out before", name, first[name])
			}
		}
	})
}
