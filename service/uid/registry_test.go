package uid

import (
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// A replica that is never asked for UIDs uses up no worker ID. It is ready as long as a
// first call could be served. Callers that come together wait for one node.
func TestFirstCallGetsTheNode(t *testing.T) {
	for _, mode := range []string{ModeCached, ModeDefault} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, idle := newTable(), error(nil)
				s := unasked(t, db, func(o *Options) { o.Mode, o.Idle = mode, func() error { return idle } })
				time.Sleep(time.Hour)
				check.OK(t, s.Ready())
				idle = errAway
				check.Is(t, s.Ready(), errAway)
				if len(db.starts) != 0 || s.Status().WorkerID != -1 {
					t.Fatalf("%d starts, %+v", len(db.starts), s.Status())
				}
				got := make(chan error)
				for range 8 {
					go func() {
						_, err := s.Next(t.Context(), 1, nil)
						got <- err
					}()
				}
				for range 8 {
					check.OK(t, <-got)
				}
				check.OK(t, s.Ready()) // Idle is not asked any more
				check.Equal(t, len(db.rows), 1, "worker IDs")
			})
		})
	}
}

// With the database away the first call is told so at once, with the reason, as all later
// ones; with a database that does not answer it waits for uid.timeout.
func TestFirstCallFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		db.away = errAway
		s := unasked(t, db, nil)
		began := time.Now()
		for range 3 {
			mustFail(t, s, 1, model.ErrNotReady)
			mustFail(t, s, 1, errAway)
			check.Is(t, s.Ready(), errAway)
		}
		check.Equal(t, time.Since(began), 0, "time")
		db.set(func(db *table) { db.away = nil })
		time.Sleep(time.Second)
		mustNext(t, s, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		r.set(0, errAway)
		s := unasked(t, newTable(), func(o *Options) { o.Registry = r })
		for _, wait := range []time.Duration{s.opts.Timeout, 0} {
			began := time.Now()
			mustFail(t, s, 1, model.ErrNotReady)
			check.Equal(t, time.Since(began), wait, "time")
		}
		mustFail(t, s, 1, errAway)
		check.Is(t, s.Ready(), errAway)
		r.set(5, nil)
		time.Sleep(time.Second)
		mustNext(t, s, 1)
		check.Equal(t, r.starts, 1, "starts of the registry")
	})
}

// A start with a registry goes on with the worker ID of the start before: after an orderly
// stop right behind what that one issued, after a crash above its mark.
func TestRegistryKeepsTheWorkerID(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		left   time.Duration // what a crash leaves out at most
		waits  bool          // and the clock must pass that
	}{
		"default":      {func(o *Options) { o.Mode = ModeDefault }, 2 * markClock * time.Second, true},
		"follow clock": {func(o *Options) { o.FollowClock, o.RejectTake = true, TakeWait }, 2 * markClock * time.Second, true},
		"cached":       {func(*Options) {}, 2 * markCounter * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, r := newTable(), &registry{}
				r.set(7, nil)
				var last int64
				for i := range 6 {
					s := unasked(t, db, func(o *Options) { o.Registry = r; c.change(o) })
					began, patience := time.Now(), time.Duration(0)
					if c.waits && i > 0 && i%2 == 0 { // after a crash
						patience = c.left
					}
					ids, err := s.Next(t.Context(), 1, nil)
					for err != nil && time.Since(began) < patience {
						time.Sleep(time.Second)
						ids, err = s.Next(t.Context(), 1, nil)
					}
					if err != nil || ids[0] <= last {
						t.Fatalf("start %d: %d after %d, %v", i, ids, last, err)
					}
					check.Equal(t, s.Status().WorkerID, 1, "worker ID")
					last = mustNext(t, s, 1)[0]
					if i%2 == 0 {
						check.OK(t, s.Stop(t.Context()))
						mark, position := db.rows[1].used, last>>(22+3)+epoch().Unix()
						if ahead := mark - position; ahead < 0 || ahead > 2*s.span() {
							t.Errorf("start %d: the mark is %d s above the last ID", i, ahead)
						}
						time.Sleep(time.Second)
						continue
					}
					db.set(func(db *table) { db.away = errAway }) // as a crash would, nothing is stored
					check.OK(t, s.Stop(t.Context()))
					db.set(func(db *table) { db.away = nil })
				}
				check.Equal(t, len(db.rows), 1, "worker IDs")
			})
		})
	}
}

// When the registry's worker ID is lost nothing more is issued; when it is back, IDs go on
// above all earlier ones, and another worker ID of the registry is another one of ours.
func TestRegistryLost(t *testing.T) {
	for _, mode := range []string{ModeCached, ModeDefault} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, r := newTable(), &registry{}
				r.set(7, nil)
				s := unasked(t, db, func(o *Options) { o.Mode, o.Registry = mode, r })
				last := mustNext(t, s, 1)[0]
				r.set(7, errAway)
				time.Sleep(1100 * time.Millisecond)
				mustFail(t, s, 1, model.ErrNoLease)
				mustFail(t, s, 1, errAway)
				check.Is(t, s.Ready(), model.ErrNoLease)
				check.Equal(t, s.Status().WorkerID, -1, "worker ID")
				r.set(7, nil)
				time.Sleep(2 * time.Second)
				if id := mustNext(t, s, 1)[0]; id <= last || s.Status().WorkerID != 1 {
					t.Errorf("%d after %d, %+v", id, last, s.Status())
				}
				r.set(8, nil)
				time.Sleep(2 * time.Second)
				mustNext(t, s, 1)
				check.Equal(t, s.Status().WorkerID, 2, "worker ID")
				check.OK(t, s.Ready())
			})
		})
	}
}

// A caller that still has a grant when its mark is lowered issues nothing with it.
func TestSealedGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := newTable(), &registry{}
		r.set(7, nil)
		s := unasked(t, db, func(o *Options) { o.Mode, o.Registry = ModeDefault, r })
		mustNext(t, s, 1)
		g := s.grant.Load()
		now := time.Now().Unix()
		check.OK(t, s.Stop(t.Context()))
		check.Equal(t, db.rows[1].used, now, "mark")
		for second := now; second < now+3; second++ {
			check.Is(t, check.Err(g.takeSeconds(second, 1)), errSealed, "second", second-now)
		}
	})
}

// A database that does not answer the last call delays the stop by its timeout only.
func TestReleaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := newTable(), &registry{}
		r.set(7, nil)
		s := unasked(t, db, func(o *Options) { o.Registry = r })
		mustNext(t, s, 1)
		synctest.Wait()
		db.set(func(db *table) { db.away = errAway })
		began := time.Now()
		check.OK(t, s.Stop(t.Context()))
		if took := time.Since(began); took > releaseTimeout || db.frees != 1 {
			t.Errorf("%v, %d calls", took, db.frees)
		}
	})
}
