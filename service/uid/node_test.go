package uid

import (
	"context"
	"errors"
	"math"
	"regexp"
	"sync/atomic"
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
		silent := atomic.Bool{}
		silent.Store(true)
		s := unasked(t, newTable(), func(o *Options) {
			o.RecordLayout = func(ctx context.Context) error {
				if silent.Load() {
					<-ctx.Done()
				}
				return ctx.Err()
			}
		})
		for _, wait := range []time.Duration{s.opts.Timeout, 0} {
			began := time.Now()
			mustFail(t, s, 1, model.ErrNotReady)
			check.Equal(t, time.Since(began), wait, "time")
		}
		silent.Store(false)
		time.Sleep(2 * time.Second)
		mustNext(t, s, 1)
	})
}

// With the database away at the start, the service is not ready, keeps trying with
// one token, and needs no restart.
func TestDatabaseAwayAtTheStart(t *testing.T) {
	for _, mode := range []string{ModeCached, ModeDefault} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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

// No node is registered before the layout is recorded, and none with a layout that is
// refused.
func TestLayoutIsRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, refused := newTable(), atomic.Bool{}
		refused.Store(true)
		s := started(t, db, func(o *Options) {
			o.RecordLayout = func(context.Context) error {
				if refused.Load() {
					return &model.LayoutChangedError{Kind: model.KindUID}
				}
				return nil
			}
		})
		time.Sleep(10 * time.Second)
		db.set(func(db *table) {
			check.Equal(t, len(db.starts), 0, "nodes that were asked for")
		})
		mustFail(t, s, 1, model.ErrLayoutChanged)
		refused.Store(false)
		time.Sleep(time.Second)
		mustNext(t, s, 1)
	})
}

// With the database away, IDs go on for at least an hour, then are refused with the
// reason, and go on again as soon as it is back.
func TestDatabaseAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		s := started(t, db, func(o *Options) { o.Mode = ModeDefault })
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
		mustFail(t, s, 1, model.ErrNoLease)
		mustFail(t, s, 1, errAway)
		db.set(func(db *table) { db.away = nil })
		time.Sleep(2 * time.Second)
		mustNext(t, s, 1)
	})
}

// What failed for a node that is lost does not fail for the next one.
func TestConditionsEndWithALostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		s := started(t, db, nil)
		time.Sleep(time.Second)
		s.filled(s.grant.Load(), errAway)
		db.set(func(db *table) { clear(db.rows) })
		reports := s.opts.Reporter.(*check.Reports)
		for s.Stats().Nodes < 2 {
			time.Sleep(time.Millisecond)
			if s.Stats().Nodes < 2 && reports.Of(ConditionFill) == nil {
				t.Fatal("the failure was not reported")
			}
		}
		time.Sleep(time.Second)
		for _, c := range []string{ConditionNode, ConditionMark, ConditionFill} {
			check.OK(t, reports.Of(c), c)
		}
	})
}

// While the database answers, the mark is raised before it is used up, however fast
// that goes, and comes to last ten minutes at the present rate.
func TestMarkFollowsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		if ahead := status.MarkedUntil - status.LastSecond; ahead < markRate*rate {
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
			synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		s := started(t, db, func(o *Options) {
			o.RejectTake, o.Timeout = TakeWait, time.Hour
			// It has too few IDs for the batch.
			o.Layout = model.UIDLayout{TimeBits: 8, WorkerBits: 52, SeqBits: 3, Epoch: time.Now().Add(-time.Minute)}
		})
		synctest.Wait()
		got := make(chan error)
		go func() {
			_, err := s.Next(t.Context(), model.MaxBatch, nil)
			got <- err
		}()
		time.Sleep(time.Second)
		began := time.Now()
		check.OK(t, s.Stop(t.Context()))
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
	check.Must(t, err)
	for range 2 {
		check.OK(t, s.Stop(t.Context()))
		s.Start()
	}
	mustFail(t, s, 1, model.ErrNotReady)
}

const second0 = int64(946684800) // 2000-01-01 00:00 UTC

// granted is a grant on a clock at second0, which at sets.
func granted(layout model.UIDLayout, start model.NodeStart, node model.Node) (g *grant, at func(second int64)) {
	var wall int64
	at = func(second int64) { wall = second * int64(time.Second) }
	at(second0)
	return newGrant(layout, start, node, func() (int64, time.Duration) { return wall, 0 }), at
}

// In default mode a worker ID that another start had is used only after that one's mark, and after the
// clock that saw the mark as past; up to its own mark, which follows that of the node.
func TestTakeAfterAnotherStart(t *testing.T) {
	for name, c := range map[string]struct {
		node  model.Node
		first int64 // second from which on IDs are issued
	}{
		"new":                     {model.Node{}, -10},
		"recycled":                {model.Node{Recycled: true, AfterSecond: second0 - 5}, 0},
		"recycled, a later bound": {model.Node{Recycled: true, AfterSecond: second0 + 3}, 4},
		"not said to be recycled": {model.Node{AfterSecond: second0 + 3}, 4},
	} {
		g, at := granted(tiny(), model.NodeStart{NowSecond: second0, UsedUntil: second0 + 8}, c.node)
		for second := int64(-10); second < 10; second++ {
			at(second0 + second)
			_, got, _, _ := g.byClock.Take(1)
			check.Equal(t, got == 1, second >= c.first && second <= 8, name, "at second", second)
		}
	}
}

// A bound outside of what the layout can express wraps into nothing.
func TestTakeWithAnOddBound(t *testing.T) {
	wide := model.UIDLayout{TimeBits: 1, WorkerBits: 1, SeqBits: 61, Epoch: epoch()}
	for _, after := range []int64{0, -1 << 62, 1 << 62} {
		g, at := granted(wide, model.NodeStart{UsedUntil: wide.MaxSecond()}, model.Node{AfterSecond: after})
		at(wide.MaxSecond())
		first, got, _, _ := g.byClock.Take(1)
		if (got == 1) != (after <= 0) || (first > 0) != (after <= 0) {
			t.Errorf("after %d: %d, %d", after, first, got)
		}
	}
}

// Every second after the epoch's has all its IDs, up to the end of the time bits.
func TestTakeToTheLastSecond(t *testing.T) {
	short := model.UIDLayout{TimeBits: 4, WorkerBits: 56, SeqBits: 3, Epoch: epoch()}
	g, at := granted(short, model.NodeStart{UsedUntil: 1 << 60}, model.Node{WorkerID: short.Workers() - 1})
	var last int64
	for second := epoch().Unix() - 3; second < epoch().Unix()+40; second++ {
		at(second)
		first, got, _, err := g.byClock.Take(9)
		in := second >= short.MinSecond() && second <= short.MaxSecond()
		if in != (got == 8) || in && first <= last || !in && second != epoch().Unix() && !errors.Is(err, model.ErrTimeExhausted) {
			t.Errorf("second %d: %d, %d, %v", second-epoch().Unix(), first, got, err)
		}
		if in {
			last = first + int64(got) - 1
		}
	}
	check.Equal(t, last, 1<<63-1, "the last ID")
}

// What the generator refuses is said in the words of the mode.
func TestRefusalsByTheClock(t *testing.T) {
	s, err := New(options(newTable()))
	check.Must(t, err)
	g, at := granted(tiny(), model.NodeStart{NowSecond: second0, UsedUntil: second0 + 100}, model.Node{WorkerID: 5})
	_, _, _, _ = g.byClock.Take(1)
	for second, want := range map[int64]error{
		-second0: model.ErrTimeExhausted, -1: model.ErrClockBack, 0: nil, 100: nil, 101: model.ErrNoLease,
	} {
		at(second0 + second)
		if err := s.explainByClock(g, g.byClock.Ready()); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("at second %d: %v, want %v", second, err, want)
		}
	}
}

// The mark stays an hour, or ten minutes at the present rate, ahead, and within the
// time bits.
func TestMarkTarget(t *testing.T) {
	g, _ := granted(tiny(), model.NodeStart{UsedUntil: second0 + 100}, model.Node{})
	for _, c := range []struct{ rate, position, want int64 }{
		{1, second0, second0 + 7200},
		{6, second0, second0 + 7200},
		{12_207, second0, second0 + 2*600*12_207},
		{1, tiny().MaxSecond() - 10, tiny().MaxSecond()},
	} {
		g.rate.Store(c.rate)
		check.Equal(t, g.target(c.position), c.want, "target at rate", c.rate)
	}
}

func TestFindPlace(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		file string
		want Place
		err  error
	}{
		"machine":        {nil, "", Place{"me", "", model.NodeActual}, nil},
		"jpaas":          {map[string]string{"JPAAS_HOST": "h", "JPAAS_HTTP_PORT": "80"}, "", Place{"h", "80", model.NodeContainer}, nil},
		"jpaas, old":     {map[string]string{"JPAAS_HOST": "h", "JPAAS_HOST_PORT_8080": "81"}, "", Place{"h", "81", model.NodeContainer}, nil},
		"jpaas, no port": {map[string]string{"JPAAS_HOST": "h"}, "", Place{}, model.ErrInvalidArgument},
		"jpaas, no host": {map[string]string{"JPAAS_HTTP_PORT": "80"}, "", Place{}, model.ErrInvalidArgument},
		"docker":         {nil, "/.dockerenv", Place{"me", "", model.NodeContainer}, nil},
		"podman":         {nil, "/run/.containerenv", Place{"me", "", model.NodeContainer}, nil},
		"kubernetes":     {map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "", Place{"me", "", model.NodeContainer}, nil},
	} {
		lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		got, err := FindPlace("me", lookup, func(path string) bool { return path == c.file })
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}

// A machine's port is the time and a random number, so that its rows differ.
func TestPlacePort(t *testing.T) {
	now := time.UnixMilli(1700000000123)
	form := regexp.MustCompile(`^1700000000123-\d{1,5}$`)
	seen := map[string]bool{}
	for range 20 {
		p := Place{}.port(now)
		if !form.MatchString(p) {
			t.Fatalf("port %q", p)
		}
		seen[p] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 ports, %d differ", len(seen))
	}
	check.Equal(t, (Place{Port: "8080"}).port(now), "8080", "port")
}

// A layout whose time has ended, such as Baidu's own, uses up no worker ID, and is not
// recorded: another one may follow.
func TestEndedLayoutLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := newTable()
		s := unasked(t, nodes, func(o *Options) {
			o.Layout = model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13, Epoch: time.Now().Add(-9 * 365 * 24 * time.Hour).Truncate(time.Second)}
			o.Mode, o.RecordLayout = ModeDefault, func(context.Context) error {
				t.Error("the layout is recorded")
				return nil
			}
		})
		check.Is(t, s.Ready(), model.ErrTimeExhausted, "Ready before a call")
		mustFail(t, s, 1, model.ErrTimeExhausted)
		nodes.set(func(n *table) { check.Equal(t, len(n.starts), 0, "starts") })
	})
}
