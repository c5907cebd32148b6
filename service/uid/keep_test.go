package uid

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
)

// With the database away at the start, the service is not ready, keeps trying with
// one token, and needs no restart.
func TestDatabaseAwayAtTheStart(t *testing.T) {
	for _, mode := range []string{ModeCached, ModeDefault} {
		t.Run(mode, func(t *testing.T) {
			story(t, func(t *testing.T) {
				db := newTable()
				db.away = errAway
				s := started(t, db, func(o *Options) { o.Mode = mode })
				time.Sleep(10 * time.Second)
				if err := s.Ready(); !errors.Is(err, model.ErrNotReady) || !errors.Is(err, errAway) {
					t.Errorf("Ready = %v", err)
				}
				mustFail(t, s, 1, model.ErrNotReady)
				db.set(func(db *table) { db.away, db.lose = nil, true })
				time.Sleep(time.Second)
				db.set(func(db *table) { db.lose, db.crash = false, true })
				time.Sleep(2 * time.Second)
				mustNext(t, s, 1)
				if len(db.rows) != 1 || db.starts[0].Token != db.starts[len(db.starts)-1].Token {
					t.Errorf("%d rows: a lost answer cost a worker ID", len(db.rows))
				}
			})
		})
	}
}

// With the database away, IDs go on for at least an hour, then are refused with the
// reason, and go on again as soon as it is back.
func TestDatabaseAway(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"default":               func(o *Options) { o.Mode = ModeDefault },
		"cached, follows clock": func(o *Options) { o.FollowClock = true },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T) {
				db := newTable()
				s := started(t, db, change)
				time.Sleep(10 * time.Hour)
				mustNext(t, s, 1)
				db.set(func(db *table) { db.away = errAway })
				began := time.Now()
				for s.Ready() == nil && time.Since(began) < 5*time.Hour {
					if _, err := s.Next(t.Context(), 8, nil); err != nil {
						break
					}
					time.Sleep(5 * time.Second)
				}
				if lasted := time.Since(began); lasted < time.Hour || lasted > 3*time.Hour {
					t.Errorf("went on for %v", lasted)
				}
				time.Sleep(time.Minute)
				for range 8 { // what a batch of 8 left
					_, _ = s.Next(t.Context(), 1, nil)
				}
				mustFail(t, s, 1, model.ErrNoLease)
				mustFail(t, s, 1, errAway)
				db.set(func(db *table) { db.away = nil })
				time.Sleep(2 * time.Second)
				mustNext(t, s, 1)
			})
		})
	}
}

// What failed for a node that is lost does not fail for the next one.
func TestConditionsEndWithALostNode(t *testing.T) {
	story(t, func(t *testing.T) {
		db := newTable()
		s := started(t, db, nil)
		time.Sleep(time.Second)
		s.filled(s.grant.Load(), errAway)
		db.set(func(db *table) { clear(db.rows) })
		reports := s.opts.Reporter.(*reporter)
		for s.Stats().Nodes < 2 {
			time.Sleep(time.Millisecond)
			if s.Stats().Nodes < 2 && reports.of(ConditionFill) == nil {
				t.Fatal("the failure was not reported")
			}
		}
		time.Sleep(time.Second)
		for _, c := range []string{ConditionNode, ConditionMark, ConditionFill} {
			if err := reports.of(c); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
	})
}

// While the database answers, the mark is raised before it is used up, however fast
// that goes, and comes to last ten minutes at the present rate.
func TestMarkFollowsTheRate(t *testing.T) {
	story(t, func(t *testing.T) {
		s := started(t, newTable(), func(o *Options) { o.BoostPower = 10 })
		synctest.Wait()
		for range 5 { // hours of the IDs' time in no time
			for range 12 {
				mustNext(t, s, 8*512)
				synctest.Wait()
			}
		}
		const rate = 512 // seconds of the IDs' time in a second
		for range 200 {
			mustNext(t, s, 8*rate)
			time.Sleep(time.Second)
		}
		status := s.Status()
		if ahead := status.MarkSecond - status.LastSecond; ahead < markRate*rate {
			t.Errorf("the mark is %d s ahead at %d s a second", ahead, rate)
		}
		if status.RunwaySeconds < markRate {
			t.Errorf("runway %d s", status.RunwaySeconds)
		}
	})
}

// A row that is gone or another's is noticed within a minute: the ring is dropped
// and another node serves.
func TestNodeLost(t *testing.T) {
	for _, mode := range []string{ModeCached, ModeDefault} {
		t.Run(mode, func(t *testing.T) {
			story(t, func(t *testing.T) {
				db := newTable()
				s := started(t, db, func(o *Options) { o.Mode = mode })
				synctest.Wait()
				mustNext(t, s, 1)
				db.set(func(db *table) { delete(db.rows, 1) })
				time.Sleep(markEvery + 2*time.Second)
				parts, err := s.Parse(mustNext(t, s, 1)[0], time.UTC)
				if err != nil || parts.WorkerID != "2" || s.Status().NodeID != 2 || s.Stats().Nodes != 2 {
					t.Errorf("%+v, %v, %+v", parts, err, s.Status())
				}
				if mode == ModeCached && s.Stats().Dropped != 15 {
					t.Errorf("%+v: the ring was not dropped", s.Stats())
				}
				if len(db.starts) != 2 {
					t.Fatalf("%d starts", len(db.starts))
				}
				if a, b := db.starts[0], db.starts[1]; a.Token == b.Token || a.Port == b.Port {
					t.Errorf("starts %+v and %+v", a, b)
				}
				db.set(func(db *table) { delete(db.rows, 2); db.lastID = math.MaxInt32 })
				time.Sleep(markEvery + 2*time.Second)
				mustFail(t, s, 1, model.ErrNoLease)
				mustFail(t, s, 1, model.ErrNoWorkerID)
			})
		})
	}
}

// A start with a clock behind is fine when its worker ID is new.
func TestRestartWithAClockBehind(t *testing.T) {
	story(t, func(t *testing.T) {
		db, c := newTable(), newClock()
		first := started(t, db, func(o *Options) { o.Mode, o.Now = ModeDefault, c.now })
		synctest.Wait()
		before := mustNext(t, first, 8)
		c.add(-time.Hour)
		second := started(t, db, func(o *Options) { o.Mode, o.Now = ModeDefault, c.now })
		synctest.Wait()
		if after := mustNext(t, second, 1); after[0] >= before[0] || after[0]>>3&(1<<22-1) != 2 {
			t.Errorf("%d after %d", after[0], before[0])
		}
	})
}

// Whoever waits when the service stops is told so.
func TestStopEndsWaiting(t *testing.T) {
	story(t, func(t *testing.T) {
		db := newTable()
		s := started(t, db, func(o *Options) { o.RejectTake, o.FollowClock, o.Timeout = TakeWait, true, time.Hour })
		synctest.Wait()
		got := make(chan error)
		go func() {
			_, err := s.Next(t.Context(), MaxBatch, nil)
			got <- err
		}()
		time.Sleep(time.Second)
		began := time.Now()
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-got; !errors.Is(err, model.ErrNotReady) || time.Since(began) > time.Second {
			t.Errorf("Next = %v, %v after Stop", err, time.Since(began))
		}
		mustFail(t, s, 1, model.ErrNotReady)
		if s.Stats().Dropped == 0 {
			t.Errorf("%+v", s.Stats())
		}
	})
}

// Stop without Start, twice, and Start after it.
func TestStopAlone(t *testing.T) {
	s, err := New(options(newTable()))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		s.Start()
	}
	mustFail(t, s, 1, model.ErrNotReady)
}
