package uid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// inBothModes runs a test in a bubble for each mode.
func inBothModes(t *testing.T, test func(t *testing.T, mode func(*Options))) {
	t.Helper()
	for _, mode := range []string{ModeCached, ModeDefault} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, func(o *Options) { o.Mode = mode }) })
		})
	}
}

// A replica that is never asked for UIDs uses up no worker ID. It is ready as long as a
// first call could be served. Callers that come together wait for one node.
func TestFirstCallGetsTheNode(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode func(*Options)) {
		db, idle := &table{}, error(nil)
		s := kept(t, db, func(o *Options) { mode(o); o.Idle = func() error { return idle } })
		time.Sleep(time.Hour)
		check.OK(t, s.Ready())
		idle = errAway
		check.Is(t, s.Ready(), errAway)
		if db.rows() != 0 || s.Status().WorkerID != -1 {
			t.Fatalf("%d starts, %+v", db.rows(), s.Status())
		}
		got := make(chan error)
		for range 8 {
			go func() { got <- check.Err(s.Next(t.Context(), 1, nil)) }()
		}
		for range 8 {
			check.OK(t, <-got)
		}
		check.OK(t, s.Ready()) // Idle is not asked any more
		check.Equal(t, db.rows(), 1, "worker IDs")
		if status := s.Status(); status.Issued != 8 || status.Refused != 0 || s.nodes.Load() != 1 {
			t.Errorf("%+v", status)
		}
	})
}

// With the database away the first call is told so at once, with the reason, as all later
// ones; with one that does not answer it waits for the timeout.
func TestFirstCallFails(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode func(*Options)) {
		db := &table{away: errAway}
		s := kept(t, db, mode)
		for range 3 {
			mustFail(t, s, 1, model.ErrNotReady, errAway.Error())
			check.Is(t, s.Ready(), model.ErrNotReady)
		}
		check.Equal(t, time.Now().Unix(), second0, "time")
		db.set(func(db *table) { db.away = nil })
		time.Sleep(2 * time.Second)
		mustNext(t, s, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		db := &table{hangs: make(chan struct{})}
		s := kept(t, db, nil)
		mustFail(t, s, 1, model.ErrNotReady, "waiting for a worker ID")
		check.Equal(t, time.Now().Unix(), second0+2, "time")
		close(db.hangs)
		synctest.Wait()
		mustNext(t, s, 1)
	})
}

// A layout whose time has ended, such as Baidu's own, uses up no worker ID.
func TestEndedLayoutLeavesNothing(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode func(*Options)) {
		db := &table{}
		s := kept(t, db, func(o *Options) {
			mode(o)
			o.Layout = model.UIDLayout(28, 22, 13, epoch().AddDate(-9, 0, 0))
		})
		check.Is(t, s.Ready(), model.ErrTimeExhausted, "Ready before a call")
		mustFail(t, s, 1, model.ErrTimeExhausted, "")
		check.Equal(t, db.rows(), 0, "starts")
	})
}

// The mark is not written more often than it is used up. While the database is unreachable IDs continue for at least an
// hour, then are refused with the reason, and continue again as soon as it is back.
func TestDatabaseAway(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode func(*Options)) {
		db := &table{}
		s, marks := serving(t, db, mode), map[int64]bool{}
		for range 10 * 3600 / 5 { // so that the seconds of the ring keep up with the clock
			mustNext(t, s, 8)
			db.set(func(db *table) { marks[db.marks[0]] = true })
			time.Sleep(5 * time.Second)
		}
		if len(marks) > 12 {
			t.Errorf("%d marks in ten hours", len(marks))
		}
		db.set(func(db *table) { db.away = errAway })
		began := time.Now()
		for s.Ready() == nil && check.Err(s.Next(t.Context(), 8, nil)) == nil {
			time.Sleep(time.Second)
		}
		if lasted := time.Since(began); lasted < time.Hour || lasted > 3*time.Hour {
			t.Errorf("went on for %v", lasted)
		}
		time.Sleep(time.Minute)
		mustFail(t, s, 1, model.ErrNoLease, errAway.Error())
		check.Is(t, s.Ready(), model.ErrNoLease)
		db.set(func(db *table) { db.away = nil })
		time.Sleep(2 * time.Second)
		mustNext(t, s, 1)
		check.OK(t, s.Ready())
	})
}

// A row that is another's is noticed within seconds: what is left of the ring is dropped, and another node serves,
// above all that was put.
func TestNodeLost(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode func(*Options)) {
		db := &table{}
		s := serving(t, db, mode)
		before := mustNext(t, s, 1)
		db.set(func(db *table) { db.tokens[0] = "another's" })
		time.Sleep(10 * time.Second)
		after := mustNext(t, s, 1)
		if status := s.Status(); after[0] <= before[0] || status.WorkerID != 2 || status.NodeID != 2 ||
			s.nodes.Load() != 2 {
			t.Errorf("%d after %d, %+v", after[0], before[0], status)
		}
		if s.ring != nil {
			check.Equal(t, s.Status().Dropped, 15, "dropped")
		}
		db.set(func(db *table) { db.tokens[1], db.full = "", true })
		time.Sleep(10 * time.Second)
		mustFail(t, s, 1, model.ErrNoLease, model.ErrNoWorkerID.Error())
		check.Equal(t, s.Status().WorkerID, -1, "worker ID")
	})
}

// Whatever a keeper grants and the clock does, IDs are of times within their term, none after its end, and none comes
// twice: a database that goes back and forth may give a process the worker ID again that it had, and know less of it.
func TestBoundsOfTerms(t *testing.T) {
	inBothModes(t, func(t *testing.T, mode func(*Options)) {
		rng, c := rand.New(rand.NewPCG(1, 0)), newClock()
		s := kept(t, &table{}, func(o *Options) { mode(o); o.Now, o.Region = c.now, model.Region{ID: 2, Bits: 2} })
		seen, worker, after, until := map[int64]bool{}, int64(0), int64(0), int64(0)
		for range 4000 {
			now := s.second()
			switch rng.IntN(10) {
			case 0:
				if rng.IntN(2) == 0 {
					s.End(model.ErrNoLease)
					ids, err := s.take(t.Context(), 1, nil)
					if err == nil || s.Status().RingFill > 0 { // who is about to take one finds none
						t.Fatalf("%d was issued after the end, or %d may be", ids, s.Status().RingFill)
					}
					if s.ring != nil {
						check.Is(t, check.Err(s.ring.More(t.Context(), 16)), model.ErrNoLease, "a fill after the end")
					}
				}
				worker, after = 1+rng.Int64N(2), now-10+rng.Int64N(20)
				until = after
				s.Begin(int(worker), 1000*after)
			case 1, 2:
				until = max(until, now+rng.Int64N(30))
				s.Extend(1000*until, math.MaxInt64)
				if rng.IntN(2) == 0 {
					synctest.Wait() // the ring is full
				}
			case 3:
				c.add(time.Duration(rng.IntN(20)-10) * time.Second)
			case 4, 5:
				time.Sleep(time.Duration(rng.IntN(5)) * time.Second)
			default:
				ids, _ := s.take(t.Context(), 1+rng.IntN(9), nil)
				for _, id := range ids {
					second, by := id>>25+epoch().Unix(), id>>3&(1<<22-1)-2<<20
					if seen[id] || second <= after || second > until || by != worker {
						t.Fatalf("%d, of worker ID %d and second %d, in the term %d…%d of %d; issued before: %t",
							id, by, second, after+1, until, worker, seen[id])
					}
					seen[id] = true
				}
			}
		}
		if len(seen) < 1000 {
			t.Errorf("only %d IDs", len(seen))
		}
	})
}

// Who comes when a later term has no time yet waits for it, and does not count as one who was refused.
func TestALaterTermIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kept(t, &table{}, func(o *Options) { o.RejectTake = TakeRefuse })
		begins := func(worker int) (extend func()) {
			now := s.second()
			s.Begin(worker, 1000*now)
			return func() { s.Extend(1000*(now+100), math.MaxInt64) }
		}
		s.Begin(3, 0)
		check.Equal(t, s.Status().MarkedUntil.IsZero(), true, "no second is marked")
		begins(1)()
		synctest.Wait()
		check.OK(t, check.Err(s.take(t.Context(), 1, nil)))
		s.End(model.ErrNoLease)
		extend, got := begins(2), make(chan error)
		go func() { got <- check.Err(s.take(t.Context(), 1, nil)) }()
		time.Sleep(100 * time.Millisecond)
		extend()
		check.OK(t, <-got)
		check.Equal(t, s.Status().Refused, 0, "refused")
	})
}

// Whoever waits when the worker ID is lost, or the service stops, is told so.
func TestStopEndsWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Service) error
		want error
	}{
		"lost": {func(s *Service) error { s.End(fmt.Errorf("%w: it is another's", model.ErrNoLease)); return nil },
			model.ErrNoLease},
		"stopped": {func(s *Service) error { return s.Stop(context.Background()) }, model.ErrNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			inBothModes(t, func(t *testing.T, mode func(*Options)) {
				s := serving(t, &table{}, func(o *Options) {
					mode(o)
					o.RejectTake, o.Timeout = TakeWait, time.Hour
				})
				synctest.Wait()
				s.term.Load().mark.Store(0) // the ring has too few IDs for the batch
				got := make(chan error)
				go func() { got <- check.Err(s.Next(t.Context(), model.MaxBatch, nil)) }()
				time.Sleep(1500 * time.Millisecond)
				began := time.Now()
				check.OK(t, c.end(s))
				check.Is(t, <-got, c.want)
				took := time.Since(began) // by the clock, until the next second
				if took > 0 && s.ring != nil || took > 500*time.Millisecond {
					t.Errorf("told after %v", took)
				}
				check.OK(t, s.Stop(t.Context()))
				mustFail(t, s, 1, model.ErrNotReady, "shutting down")
				check.Is(t, s.Ready(), model.ErrNotReady)
				if status := s.Status(); status.Dropped == 0 {
					t.Errorf("%+v", status)
				}
			})
		})
	}
}

// The ring begins with the clock's second and continues with whole seconds when less
// than half is left, into the future, whatever the clock does.
func TestCachedFills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		s := serving(t, &table{}, func(o *Options) { o.Now = c.now })
		synctest.Wait()
		check.Must(t, s.Ready())
		for i := range 800 {
			switch i {
			case 200:
				c.add(-time.Hour)
			case 400:
				c.add(3 * time.Hour)
			case 600:
				c.add(-2 * time.Hour)
			}
			want := tiny().Compose(second0+int64(i/8), 1, int64(i%8))
			check.Equal(t, mustNext(t, s, 1)[0], want, "ID", i)
			synctest.Wait()
			if fill := s.Status().RingFill; fill < 8 || fill > 16 {
				t.Fatalf("ring holds %d after ID %d", fill, i)
			}
		}
		status := s.Status()
		if status.WorkerID != 1 || status.RingSize != 16 || status.AheadSeconds < 99 || status.Issued != 800 ||
			status.Dropped+status.Refused != 0 {
			t.Errorf("%+v", status)
		}
	})
}

// With block the ring is topped up as soon as a second finds room, not at the mark; by schedule, although more
// than the padding is left.
func TestWhenTheRingIsFilled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		after  []int64 // IDs in the ring after 7 were taken, another, and a minute
	}{
		"padding":            {func(o *Options) { o.PaddingFactor = 40 }, []int64{25, 24, 24}},
		"much padding":       {func(o *Options) { o.PaddingFactor = 99 }, []int64{25, 32, 32}},
		"block":              {func(o *Options) { o.RejectPut = PutBlock }, []int64{25, 32, 32}},
		"by schedule":        {func(o *Options) { o.ScheduleInterval = time.Minute }, []int64{25, 24, 32}},
		"by a long schedule": {func(o *Options) { o.ScheduleInterval = time.Hour }, []int64{25, 24, 24}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serving(t, &table{}, func(o *Options) { o.BoostPower = 2; c.change(o) })
				holds := func(want int64, when string) {
					t.Helper()
					synctest.Wait()
					check.Equal(t, s.Status().RingFill, want, "IDs in the ring", when)
				}
				holds(32, "at first")
				mustNext(t, s, 7)
				holds(c.after[0], "after 7")
				mustNext(t, s, 1)
				holds(c.after[1], "after 8")
				time.Sleep(time.Minute)
				holds(c.after[2], "after a minute")
			})
		})
	}
}

// With refuse, who finds too little is answered at once, with the reason.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, &table{}, nil)
		synctest.Wait()
		s.term.Load().mark.Store(0)
		mustNext(t, s, 13)
		mustFail(t, s, 8, model.ErrRingEmpty, "")
		check.Equal(t, time.Now().Unix(), second0, "time")
		synctest.Wait()
		mustFail(t, s, 4, model.ErrRingEmpty, "beyond the mark")
		mustNext(t, s, 3)
		mustFail(t, s, 9, model.ErrRingEmpty, "beyond the mark") // which is more than the filler gives for sure
		check.Equal(t, time.Now().Unix(), second0+2, "time")
		check.Equal(t, s.Status().Refused, 3, "refused")
	})
}

// Past the time bits nothing is issued any more.
func TestCachedToTheLastSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, &table{}, func(o *Options) {
			o.Layout = model.UIDLayout(8, 52, 3, time.Now().Add(-10*time.Second))
		})
		var last int64
		for i := range (255 - 9) * 8 { // seconds 10…255
			synctest.Wait()
			id := mustNext(t, s, 1)[0]
			if id <= last {
				t.Fatalf("ID %d is %d after %d", i, id, last)
			}
			if last = id; i%200 == 0 {
				time.Sleep(3 * time.Second)
			}
		}
		time.Sleep(10 * time.Second)
		for range 20 {
			mustFail(t, s, 1, model.ErrTimeExhausted, "")
		}
		if err := s.Ready(); !errors.Is(err, model.ErrTimeExhausted) || s.Status().RemainingSeconds != 0 {
			t.Errorf("Ready = %v, %+v", err, s.Status())
		}
	})
}

// The counter of cached mode may not pass the mark either, however fast it goes. While the database answers, the
// mark is raised before it is used up, and comes to last ten minutes at the present rate.
func TestMarkFollowsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &table{}
		s := serving(t, db, func(o *Options) { o.BoostPower = 10 })
		for range 60 { // hours of the IDs' time in no time
			mustNext(t, s, 8*512)
			synctest.Wait()
		}
		const rate = 64 // seconds of the IDs' time in a second
		for range 200 {
			mustNext(t, s, 8*rate)
			time.Sleep(time.Second)
		}
		status := s.Status()
		if ahead := int64(status.MarkedUntil.Sub(status.LastSecond).Seconds()); ahead < leadRate*rate*9/10 ||
			status.RunwaySeconds < leadRate*9/10 {
			t.Errorf("the mark is %d s ahead at %d s a second, runway %d s", ahead, rate, status.RunwaySeconds)
		}
		db.set(func(db *table) { db.away = errAway })
		highest := int64(0)
		for _, batch := range []int{8 * 1024, 8} {
			for {
				ids, err := s.Next(t.Context(), batch, nil)
				if err != nil {
					break
				}
				highest = ids[batch-1]
				synctest.Wait()
			}
		}
		mustFail(t, s, 1, model.ErrNoLease, "beyond the mark")
		if want := tiny().Compose(db.marks[0], 1, 7); highest != want {
			t.Fatalf("the last ID is %d, the mark %d allows %d", highest, db.marks[0], want)
		}
	})
}

// In default mode a caller waits for the next second when this one is used up.
func TestDefaultWaitsForTheNextSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serving(t, &table{}, func(o *Options) { o.Mode = ModeDefault })
		began := time.Now()
		ids := mustNext(t, s, 20)
		if took := time.Since(began); took != 2*time.Second || ids[19] != tiny().Compose(second0+2, 1, 3) {
			t.Errorf("20 IDs took %v and end with %d", took, ids[19])
		}
		mustFail(t, s, 100, model.ErrRingEmpty, "nothing came within 2s") // it takes 13 s
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Is(t, check.Err(s.Next(ctx, 100, nil)), context.Canceled, "Next of an ended context")
		if status := s.Status(); status.Issued != 20 || status.Dropped == 0 {
			t.Errorf("%+v", status)
		}
	})
}

// Cached mode with Baidu's defaults, fill included; a take that finds nothing waits. The time bits are more
// than Baidu's 28, which one core uses up within hours at this speed.
func BenchmarkCached(b *testing.B) {
	for name, goroutines := range map[string]int{"one, 1 goroutine": 1, "one, 2 goroutines": 2} {
		b.Run(name, func(b *testing.B) {
			s := serving(b, &table{}, func(o *Options) {
				o.Layout = model.UIDLayout(41, 9, 13, time.Now().Add(-time.Hour).Truncate(time.Second))
				o.BoostPower, o.RejectTake = 3, TakeWait
			})
			b.ReportAllocs()
			b.ResetTimer()
			var takers sync.WaitGroup
			for range goroutines {
				takers.Go(func() {
					ids := make([]int64, 0, 1)
					for range b.N/goroutines + 1 {
						if _, err := s.Next(context.Background(), 1, ids); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			takers.Wait()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/ID")
			b.ReportMetric(float64(s.Status().Refused)/float64(b.N), "refused/op")
		})
	}
}
