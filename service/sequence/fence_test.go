package sequence_test

import (
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/sequence"
)

// While the database is unreachable numbers continue, for as long as a lease lasts and no longer, whatever happens to
// the clock, and come back by themselves.
func TestDatabaseAway(t *testing.T) {
	for _, back := range []time.Duration{0, 5 * time.Second} {
		t.Run(fmt.Sprint("the clock is set back by ", back), func(t *testing.T) {
			var set time.Duration // the table's lock guards it
			within(t, func(t *testing.T, r *rig) {
				r.want("a", 1)
				r.table.change(func() { r.table.err, set = errAway, back })
				time.Sleep(6*time.Second - back) // the lease was renewed up to 3 s before
				r.want("a", 2)
				time.Sleep(4*time.Second + back)
				r.wantNone("a", errAway)
				check.Is(t, r.reports.Of(sequence.Condition), errAway)
				time.Sleep(time.Minute)
				r.wantNone("a", errAway)
				r.table.change(func() { r.table.err = nil })
				time.Sleep(5 * time.Second)
				check.OK(t, r.reports.Of(sequence.Condition), "the condition")
				r.wantAbove("a", 2)
			}, func(o *sequence.Options, db *table) {
				start := time.Now()
				o.Now = func() (wall int64, mono time.Duration) {
					db.change(func() { wall = time.Now().Add(-set).UnixNano() })
					return wall, time.Since(start)
				}
			})
		})
	}
}

// A process that is alone needs no lease: it continues for as long as there are numbers.
func TestAlone(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.want("a", 1)
		r.table.change(func() { r.table.err = errAway })
		time.Sleep(time.Hour)
		r.want("a", 2)
		r.redis.replace()
		r.wantNone("a", errAway)
		r.table.change(func() { r.table.err = nil })
		time.Sleep(3 * time.Second)
		r.wantAbove("a", 1000) // at once, as nobody has leases
	}, func(o *sequence.Options, t *table) { o.Alone, t.alone = true, true })
}

// After another replica took a section for another life of Redis, whoever asks the one before stops
// with its next lease: by the number of the leases, or where a copy of the database lacks it, by the
// changes of the database server.
func TestSectionIsLost(t *testing.T) {
	for name, take := range map[string]func(*table){
		"the number of the leases changed": func(db *table) { db.another(sectionOf("a"), true) },
		"the database server changed": func(db *table) {
			db.another(sectionOf("a"), false)
			db.change(func() { db.changes++ })
		},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, r *rig) {
				r.redis.change(func() { r.redis.strays = true }) // it still answers
				r.want("a", 1)
				take(r.table)
				r.want("a", 2) // its lease lasts: whoever took the section waits for its end
				time.Sleep(4 * time.Second)
				r.wantNone("a", model.ErrFence)
				r.wantNone("a", model.ErrFence)
			})
		})
	}
}

// A section that is filled once the leases of its life have another number gives numbers at once.
func TestGrantsAreFollowed(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.want("a", 1)
		check.Equal(t, sectionOf("a") == sectionOf("b"), false, "they have one section")
		r.table.another(sectionOf("a"), true)
		began := time.Now()
		r.want("b", 1)
		if took := time.Since(began); took >= time.Second { // leases are renewed every 3 s
			t.Errorf("after %v", took)
		}
	})
}

// A renewal whose answer comes after that of a later one brings no lease back.
func TestOvertakenRenewal(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.redis.change(func() { r.redis.strays = true })
		r.want("a", 1)
		r.table.change(func() { r.table.late = time.Second })
		time.Sleep(3500 * time.Millisecond) // it has begun
		r.table.another(sectionOf("a"), true)
		r.Ask(t.Context(), []*model.SequenceAsk{{Space: "none", Key: "a", Count: 1}}) // leases are renewed to find it
		for range 2 {
			r.wantNone("a", model.ErrFence)
			time.Sleep(time.Second)
		}
	})
}

// Sections of a Redis that was replaced give numbers again, above all before, when every lease of
// the earlier term has ended and not sooner; until then callers are told why. The wait of a term begins when it is
// first seen, and again with the next one.
func TestRedisIsReplaced(t *testing.T) {
	for _, times := range []int64{1, 2} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			within(t, func(t *testing.T, r *rig) {
				r.want("a", 1)
				for range times - 1 {
					r.redis.replace()
					r.wantNone("a", model.ErrFence)
					time.Sleep(8 * time.Second)
				}
				r.table.change(func() { r.table.err = errAway })
				_, _ = r.ask("a", 600) // more numbers are wanted, and cannot be had
				r.redis.replace()
				r.table.change(func() { r.table.err = nil })
				began := time.Now()
				got, err := r.ask("a", 1)
				for ; err != nil && time.Since(began) < 20*time.Second; got, err = r.ask("a", 1) {
					check.Is(t, err, model.ErrNoNumber)
					check.Is(t, err, model.ErrFence)
					check.Is(t, r.reports.Of(sequence.Condition), model.ErrFence)
				}
				check.OK(t, err)
				if took := time.Since(began); took <= 10500*time.Millisecond || took > 15*time.Second {
					t.Errorf("open after %v", took)
				}
				if got <= 1000*times {
					t.Errorf("%d is not above what was taken before", got)
				}
				r.table.change(func() {
					if last := r.table.rows[sectionOf("a")].Last; last > got+3000 {
						t.Errorf("%d numbers were taken while none could be given", last-got)
					}
				})
				r.want("a", got+1)
				check.OK(t, r.reports.Of(sequence.Condition), "the condition")
			})
		})
	}
}

// What was lost together is waited for together: a section that nobody asked meanwhile gives numbers
// at once when the first one does.
func TestIdleSectionsAreOpened(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		idle := otherThan("a")
		r.want("a", 1)
		r.want(idle, 1)
		r.redis.replace()
		r.wantNone("a", model.ErrFence)
		time.Sleep(12 * time.Second)
		began := time.Now()
		r.wantAbove(idle, 1000)
		r.wantAbove("a", 1000)
		check.Equal(t, time.Since(began), 0, "waited")
	})
}

// A server that cannot be made sure of takes no section from the one before.
func TestStrayRedis(t *testing.T) {
	within(t, func(t *testing.T, r *rig) {
		r.want("a", 1)
		r.redis.change(func() { r.redis.strays = true })
		r.redis.replace()
		for range 20 {
			r.wantNone("a", model.ErrFence)
		}
		r.table.change(func() { check.Equal(t, r.table.rows[sectionOf("a")].Term, 1, "term") })
		r.redis.change(func() { r.redis.strays = false })
		time.Sleep(15 * time.Second)
		check.OK(t, check.Err(r.ask("a", 1)))
	})
}
