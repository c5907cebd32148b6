package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/queue"
)

// What happens while the stores fail, are slow, or go back, and how that ends. Times are exact: the clock is
// that of synctest.

// A replica starts when its stores answer. With the database away what is held and in the store is issued. Then
// callers hear the reason, and the mode is not ready once no list has anything left. With the lists away no segment
// is taken. All that failed is tried again until it works, although nobody asks.
func TestStoresAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		for shard := range uint8(2) {
			key := model.ListKey{App: 1, Shard: shard}
			db.rows[key] = model.AllocState{Key: key, Step: 100}
		}
		db.delay = 2 * time.Millisecond
		l.fail(errAway)
		db.fail(errAway)
		r := start(t, l, db, firstSweepOnly, timeout(100*time.Millisecond))
		synctest.Wait()
		for _, err := range []error{check.Err(r.one(1, passOf(0))), r.Reload(t.Context())} {
			check.Is(t, err, model.ErrNotReady)
			check.Is(t, err, errAway, "what it waits for")
		}
		l.fail(nil)
		time.Sleep(time.Second)
		check.Is(t, r.Ready(), model.ErrNotReady, "ready without a database")
		db.fail(nil)
		time.Sleep(2 * time.Second)
		check.OK(t, r.Ready())
		check.Equal(t, r.counted("refills_total"), 2, "refills")

		db.fail(errAway)
		for range 30 { // one after the other is a hot list
			check.Must(t, check.Err(r.one(1, passOf(0))))
		}
		synctest.Wait() // a pop ahead of demand ends
		if s, v := r.Status(), r.Seen()[0]; s.Held == 0 || s.Held != v.Held || s.Issued != 30 || v.Issued != 30 {
			t.Errorf("IDs are held: %+v, %+v", s, v)
		}
		err := r.dry(passOf(0))
		check.Is(t, err, model.ErrQueueEmpty)
		check.Is(t, err, errAway)
		check.OK(t, r.Ready(), "one list is dry, the other is not")
		check.Is(t, r.dry(passOf(1)), errAway)
		check.Is(t, r.Ready(), model.ErrQueueEmpty, "both lists are dry")
		check.Is(t, r.Ready(), errAway)
		db.set(func(db *table) { db.delay = 300 * time.Millisecond })
		check.Is(t, check.Err(r.one(1, passOf(0))), errAway, "while the next try is under way")
		check.Equal(t, r.counted("issued_total"), 200, "issued")

		l.fail(errAway)
		time.Sleep(10 * time.Second)
		asked := db.asks()
		check.Is(t, check.Err(r.one(1, passOf(0))), errAway)
		check.Is(t, r.Reload(t.Context()), errAway)
		time.Sleep(3 * time.Minute)
		conditions := []string{queue.ConditionPop, queue.ConditionRefill, queue.ConditionReload}
		for _, c := range conditions {
			check.Is(t, r.reports.Of(c), errAway, c)
		}
		check.Equal(t, db.asks(), asked, "segments that the outage of the lists took")
		l.fail(nil)
		db.fail(nil)
		time.Sleep(2500 * time.Millisecond)
		check.OK(t, r.Ready())
		r.works(t, conditions...)
		check.OK(t, check.Err(r.one(1, passOf(0))))
	})
}

// A server of a cluster that is silent costs the lists of the others time, and nothing else.
func TestASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		r := start(t, l, db, firstSweepOnly, timeout(1500*time.Millisecond))
		time.Sleep(time.Second)
		l.restart() // so all lists are in one pass
		l.set(func(l *lists) { l.silent = map[string]bool{"1_1": true, "1_40": true} })
		var callers sync.WaitGroup
		for shard := range uint8(model.Shards) {
			callers.Go(func() {
				_, err := r.one(1, passOf(shard))
				check.Equal(t, err == nil, !l.silent[model.ListKey{App: 1, Shard: shard}.String()], shard, err)
			})
		}
		callers.Wait()
	})
}

// What a store costs that takes no indices, for three hours, while eight callers wait and while nobody does. A
// store that takes no writes says so before a segment is taken; where pushes fail, or COMMITs, a segment is
// lost now and then. It is an alarm for as long as it lasts.
func TestWhatIsLost(t *testing.T) {
	const oom = "OOM command not allowed"
	for name, c := range map[string]struct {
		fails       func(*lists, *table, bool)
		least, most int // segments of one list
		end         time.Duration
	}{
		"writes are refused": {func(l *lists, _ *table, fails bool) {
			l.set(func(l *lists) {
				if l.readOnly = nil; fails {
					l.readOnly = errors.New(oom)
				}
			})
		}, 0, 0, 2 * time.Second},
		"pushes fail": {func(l *lists, _ *table, fails bool) {
			l.set(func(l *lists) {
				if l.onPush = nil; fails {
					l.onPush = refused
				}
			})
		}, 1000, 3*360 + 8, 11 * time.Second},
		"no transaction begins": {func(_ *lists, db *table, fails bool) {
			if db.fail(nil); fails {
				db.fail(&model.StoreError{Store: "database", Op: "allocate", Err: &model.NotBegunError{Err: errAway}})
			}
		}, 3 * 3600, 3 * 7200, 2 * time.Second}, // which takes none
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, db := newLists(), newTable(1)
				r := ready(t, l, db, firstSweepOnly, timeout(time.Second))
				time.Sleep(time.Second)
				c.fails(l, db, true)
				l.restart()
				before := db.asks()
				var callers sync.WaitGroup
				for range 8 {
					callers.Go(func() { check.Is(t, r.dry("alice"), model.ErrQueueEmpty) })
				}
				callers.Wait()
				time.Sleep(3 * time.Hour)
				if n := db.asks() - before; n < c.least || n > c.most {
					t.Errorf("%d segments were asked for", n)
				}
				if r.reports.Of(queue.ConditionRefill) == nil {
					t.Error("nothing was reported")
				}
				c.fails(l, db, false)
				time.Sleep(c.end)
				r.works(t, queue.ConditionRefill)
				check.OK(t, r.alice())
			})
		})
	}
}

// The holder of a lock died, or Redis went away before it could be freed: callers ignore it after half a
// second, and without one nothing is asked of the database for a list that is full.
func TestALockOfTheDeadIsOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		r := ready(t, l, db, firstSweepOnly)
		time.Sleep(time.Second)
		l.fail(errAway)
		check.Is(t, r.alice(), model.ErrQueueEmpty)
		l.set(func(l *lists) { l.locks[aliceKey().String()] = time.Now().Add(time.Hour) })
		l.fail(nil)
		time.Sleep(7 * time.Second)
		r.works(t, queue.ConditionPop, queue.ConditionRefill)
		check.Equal(t, r.counted("wasted_indices_total"), 0, "what was used up")
		check.Equal(t, db.asks(), 1, "segments")
		check.OK(t, l.Delete(t.Context(), []model.ListKey{aliceKey()}))
		began := time.Now()
		check.Must(t, r.alice())
		if took := time.Since(began); took < 400*time.Millisecond || took > time.Second {
			t.Errorf("it took %v to ignore the lock", took)
		}
	})
}

// Lists run dry together that need more than a pass may take: none is lost by that.
func TestListsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		db.provision(1, 100_000, reject(0)) // 6.4 s for 64 lists
		l.onPush = l.slow()
		r := ready(t, l, db, firstSweepOnly, timeout(10*time.Second))
		time.Sleep(10 * time.Second)
		check.Equal(t, r.counted("refills_total"), model.Shards, "refills")
		check.Equal(t, r.wasted("failed"), 0, "what was given up")
	})
}

// What is not to be used is not: a segment that was allocated in another life of the list, and indices that the
// list gave before, whoever pushed them again.
func TestTheTripwire(t *testing.T) {
	l, db := newLists(), newTable(1)
	var dropped atomic.Bool
	l.onPush = func(ctx context.Context, reqs []model.PushRequest) []error {
		for i := range reqs {
			if reqs[i].Key == aliceKey() && dropped.CompareAndSwap(false, true) {
				reqs[i].Life = "before the failover"
			}
		}
		return l.Store.Push(ctx, reqs)
	}
	last := int64(0)
	l.onPop = func(p model.Popped) model.Popped {
		if len(p.Indices) > 0 {
			if last > 0 {
				p.Indices = append([]int64{1, last}, p.Indices...)
			}
			last = p.Indices[len(p.Indices)-1]
		}
		return p
	}
	r := ready(t, l, db)
	got := newCollector()
	for range 50 {
		got.take(t, r, 1)
	}
	got.check(t, 50)
	if n := r.counted("repeated_indices_total"); n < 2 || r.wasted("history") == 0 || got.seen[16385] {
		t.Errorf("%d indices were refused, %+v", n, r.Status())
	}
}

// A row that went back repeats no segment: the database is told what this replica knows to be issued, and what
// Redis does.
func TestTheFloor(t *testing.T) {
	goesBack := func(db *table) {
		db.edit(aliceKey(), func(row *model.AllocState) { row.Last, row.LastMaxID = 0, 0 })
	}
	for name, next := range map[string]func(*testing.T, *lists, *table, replica, *collector) replica{
		"known here": func(t *testing.T, l *lists, _ *table, r replica, _ *collector) replica {
			check.Must(t, r.Reload(t.Context()))
			l.restart()
			return r
		},
		"popped here": func(t *testing.T, l *lists, db *table, r replica, got *collector) replica {
			db.edit(aliceKey(), func(row *model.AllocState) { row.Step = 1000 })
			other := ready(t, l, db)
			got.take(t, other, 300)
			stop(t, other.Service)
			got.take(t, r, 200) // of what the other one has pushed
			goesBack(db)
			l.restart()
			return r
		},
		"known to Redis": func(t *testing.T, l *lists, db *table, r replica, _ *collector) replica {
			stop(t, r.Service)
			check.Must(t, l.Delete(t.Context(), []model.ListKey{aliceKey()}))
			return ready(t, l, db)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, db := newLists(), newTable(1)
			r, got := ready(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 }), newCollector()
			got.take(t, r, 150)
			goesBack(db)
			r = next(t, l, db, r, got)
			issued := len(got.seen)
			got.take(t, r, 1000)
			got.check(t, issued+1000)
			check.Equal(t, r.wasted("high_water"), 0, "indices below what Redis has")
		})
	}
}

// Who waits while the service stops is told, as is who comes later; no pass begins any more. It may be stopped
// twice.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		for app := range uint8(16) {
			db.provision(app, 100_000, reject(0))
		}
		var pushes atomic.Int64
		slow := l.slow()
		l.onPush = func(ctx context.Context, reqs []model.PushRequest) []error {
			pushes.Add(1)
			return slow(ctx, reqs)
		}
		r := ready(t, l, db)
		time.Sleep(3 * time.Second)
		before := pushes.Load()
		waits := make(chan error)
		go func() { waits <- r.alice() }()
		synctest.Wait()
		stop(t, r.Service)
		check.Is(t, <-waits, model.ErrNotReady, "who waits")
		check.Is(t, check.Err(r.one(1, "bob")), model.ErrNotReady, "after the end")
		check.Equal(t, pushes.Load(), before, "pushes, of which none began after the stop")
		stop(t, r.Service)
	})
}

// A database for which nobody vouches makes a list of few indices wait for an operator, which shows before a
// caller is refused, and ends without one.
func TestAnUnvouchedDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		db.doubt(reject(100_000))
		r := ready(t, l, db, timeout(time.Minute))
		check.Equal(t, r.Seen()[0].Unconfirmed, 1, "unconfirmed before a caller")
		began := time.Now()
		for range 3 {
			err := r.alice()
			if !errors.Is(err, model.ErrQueueEmpty) || !errors.Is(err, model.ErrUnconfirmed) ||
				strings.Contains(err.Error(), "try again") {
				t.Errorf("one: %v", err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("nobody is to wait, it took %v", took)
		}
		for range 200 { // lists that work hide none that fails
			check.Must(t, check.Err(r.one(1, "hello")))
		}
		check.Is(t, r.reports.Of(queue.ConditionRefill), model.ErrUnconfirmed, "reported")
		db.confirm()
		time.Sleep(11 * time.Second)
		r.works(t, queue.ConditionRefill)
		check.OK(t, r.alice())
		check.Equal(t, r.Seen()[0].Unconfirmed, 0, "unconfirmed still")
	})
}

// The sweep refills what is low. Of three replicas one sweeps each time, and while the store fails all do.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, apps = 2 * time.Minute, 2
		db, l := newTable(), newLists()
		for app := range uint8(apps) {
			db.provision(app, 100, reject(0))
		}
		var asked atomic.Int64
		l.onState = func(n int) { asked.Add(int64(n)) }
		replicas := []replica{ready(t, l, db), ready(t, l, db), ready(t, l, db)}
		sweeps := func(periods int) int64 {
			asked.Store(0)
			time.Sleep(time.Duration(periods) * period)
			return asked.Load() / (apps * model.Shards)
		}
		time.Sleep(period) // the first sweep of each
		check.Equal(t, sweeps(10), 10, "sweeps in ten periods")
		stop(t, replicas[1].Service)
		check.Equal(t, sweeps(10), 10, "sweeps after one has stopped")
		check.Must(t, check.Err(l.Store.Pop(t.Context(), aliceKey(), 85))) // another program's doing
		time.Sleep(period)
		if n := l.depth(aliceKey()); n < 100 {
			t.Errorf("a list that was low has %d indices", n)
		}
		l.fail(errAway)
		if n := sweeps(3); n < 5 {
			t.Errorf("%d sweeps while the store was unreachable", n)
		}
	})
}

// All IDs are the region's, whatever a list has.
func TestRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, region := newLists(), model.Region{ID: 2, Bits: 2}
		l.onPop = func(p model.Popped) model.Popped {
			if len(p.Indices) > 0 {
				p.Indices = append(p.Indices, region.MaxIndex()+1)
			}
			return p
		}
		r := start(t, l, newTable(1), func(o *queue.Options) { o.Region = region })
		time.Sleep(time.Second) // it has read the apps
		for range 3000 {
			id, err := r.one(1, passOf(0))
			if err != nil || id>>(63-region.Bits) != 2 {
				t.Fatal(id, err)
			}
		}
	})
}
