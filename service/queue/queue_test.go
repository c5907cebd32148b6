package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/service/queue"
)

func TestTheFirstIDOfAliceIs16385(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	for want := int64(16385); want < 16385+3<<14; want += 1 << 14 {
		if id, err := r.one(1, "alice"); err != nil || id != want {
			t.Fatalf("one = %d, %v, want %d", id, err, want)
		}
	}
}

// Callers of all replicas wait for the refills in flight.
func TestReplicasNeverRepeat(t *testing.T) {
	l, db := newLists(), newTable(1, 7, 255)
	db.delay = 20 * time.Millisecond
	replicas := []replica{ready(t, l, db), ready(t, l, db), ready(t, l, db)}
	const callers, calls = 24, 200
	got := newCollector()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			apps := []uint8{1, 7, 255}
			for j := range calls {
				app, pass, count := apps[j%3], fmt.Sprintf("caller-%d@example.org", j%5), 1+j%7
				ids, err := replicas[i%3].Next(context.Background(), int(app), pass, count, nil)
				if err != nil || len(ids) != count {
					t.Errorf("Next = %v, %v", ids, err)
					return
				}
				got.add(ids, app, pass)
			}
		})
	}
	wg.Wait()
	want := 0
	for j := range calls {
		want += callers * (1 + j%7)
	}
	got.check(t, want)
	for _, r := range replicas {
		if s := r.Stats(); s.Issued == 0 || s.Repeated != 0 || s.Lifts != 0 || s.Purged != 0 {
			t.Errorf("stats: %+v", s)
		}
	}
}

func TestIDsAreAppendedAndErrorsAppendNothing(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	ids, err := r.Next(context.Background(), 1, "alice", 2, []int64{42})
	if err != nil || len(ids) != 3 || ids[0] != 42 {
		t.Fatalf("Next = %v, %v", ids, err)
	}
	ids, err = r.Next(context.Background(), 2, "alice", 2, []int64{42})
	if err == nil || len(ids) != 1 {
		t.Fatalf("Next = %v, %v", ids, err)
	}
}

func TestInvalidArguments(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	for _, c := range []struct {
		app   int
		pass  string
		count int
	}{
		{-1, "a", 1}, {256, "a", 1}, {1, "", 1}, {1, "\xff", 1}, {1, strings.Repeat("x", 1025), 1},
		{1, "a", 0}, {1, "a", -1}, {1, "a", model.MaxBatch + 1},
	} {
		if ids, err := r.Next(context.Background(), c.app, c.pass, c.count, nil); !errors.Is(err, model.ErrInvalidArgument) || ids != nil {
			t.Errorf("Next(%d, %.10q, %d) = %v, %v", c.app, c.pass, c.count, ids, err)
		}
	}
}

func TestALowRateTakesOneIndexAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		r := ready(t, l, newTable(1))
		check.Eventually(t, "filled", func() error {
			if l.State(t.Context(), []model.ListKey{aliceKey()})[0].Len == 0 {
				return errors.New("the list is empty")
			}
			return nil
		})
		for range 3 {
			check.Must(t, check.Err(r.one(1, "alice")))
			time.Sleep(550 * time.Millisecond)
		}
		check.Equal(t, fmt.Sprint(l.popped()), "[1 1 1]", "indices that pops asked for")
	})
}

func TestAHighRateTakesMany(t *testing.T) {
	l, db := newLists(), newTable()
	db.provision(1, 100_000, model.Limit{Policy: model.LimitReject})
	r := ready(t, l, db)
	const calls = 20_000
	for range calls {
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	if n := len(l.popped()); n > calls/20 {
		t.Errorf("%d pops for %d IDs, want at most a twentieth", n, calls)
	}
}

func TestPrefetchOfOneIsOnePopPerID(t *testing.T) {
	l := newLists()
	r := ready(t, l, newTable(1), func(o *queue.Options) { o.PrefetchMax = 1 })
	for range 500 {
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	for _, n := range l.popped() {
		if n != 1 {
			t.Fatalf("a pop asked for %d indices", n)
		}
	}
}

func TestExactlyThreeLeft(t *testing.T) {
	l, db := newLists(), newTable(1)
	alice, bob := aliceKey(), model.ListKey{App: 1, Shard: model.ShardOf("bob")}
	limit := model.Limit{MaxID: alice.Compose(1003), Policy: model.LimitReject}
	db.provision(1, 100, limit)
	db.edit(alice, func(row *model.AllocState) { row.Last = 1000 })
	a, b := ready(t, l, db), ready(t, l, db)

	// A batch that is too large gets nothing; what was popped for it is for the next callers.
	if ids, err := a.Next(context.Background(), 1, "alice", 4, nil); !errors.Is(err, model.ErrLimitReached) || ids != nil {
		t.Fatalf("Next = %v, %v", ids, err)
	}
	got := newCollector()
	for i := range 20 {
		for _, r := range []replica{a, b} {
			id, err := r.one(1, "alice")
			switch {
			case err == nil:
				got.add([]int64{id}, 1, "alice")
			case !errors.Is(err, model.ErrLimitReached):
				t.Fatalf("round %d: %v", i, err)
			}
		}
	}
	got.check(t, 3)
	if _, err := a.one(1, "bob"); bob.Shard == alice.Shard || err != nil {
		t.Errorf("another shard: %v", err)
	}
}

func TestALoweredLimitIsKept(t *testing.T) {
	l, db := newLists(), newTable()
	db.provision(1, 1000, model.Limit{Policy: model.LimitReject})
	r := ready(t, l, db, everySecond)
	alice := aliceKey()
	for range 200 { // hold some ahead of demand
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	limit := alice.Compose(205)
	db.edit(alice, func(row *model.AllocState) { row.Limit.MaxID = limit })
	reloads := db.countLoads()
	check.Eventually(t, "two reloads", func() error {
		if n := db.countLoads(); n < reloads+2 {
			return fmt.Errorf("%d", n-reloads)
		}
		return nil
	})
	for index := int64(201); index <= 205; index++ { // what is left comes, all of it
		if id, err := r.one(1, "alice"); err != nil || id != alice.Compose(index) {
			t.Fatalf("one = %d, %v, want index %d", id, err, index)
		}
	}
	for range 300 {
		if id, err := r.one(1, "alice"); !errors.Is(err, model.ErrLimitReached) {
			t.Fatalf("one = %d, %v above the limit", id, err)
		}
	}
	if s := r.Stats(); s.OverLimit == 0 {
		t.Errorf("stats: %+v", s)
	}
}

// Callers of a list at its limit do not each cost a transaction, and a limit that is
// raised counts as soon as it has been read.
func TestAListAtItsLimitIsLeftAlone(t *testing.T) {
	l, db := newLists(), newTable()
	alice := aliceKey()
	db.provision(1, 100, model.Limit{MaxID: alice.Compose(3), Policy: model.LimitReject})
	r := ready(t, l, db)
	for range 3 {
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	began, before := time.Now(), db.askedFor(alice)
	for range 300 {
		if _, err := r.one(1, "alice"); !errors.Is(err, model.ErrLimitReached) {
			t.Fatal(err)
		}
	}
	// One a second, and some for where the callers began.
	if n, most := db.askedFor(alice)-before, int(time.Since(began)/time.Second)+3; n > most {
		t.Errorf("300 callers asked for %d segments, at most %d are due", n, most)
	}
	// Above the segment that was taken whole.
	db.edit(alice, func(row *model.AllocState) { row.Limit.MaxID = alice.Compose(500) })
	check.Must(t, r.Reload(t.Context()))
	check.OK(t, check.Err(r.one(1, "alice")), "under the new limit")
}

func TestWrapSkipsZero(t *testing.T) {
	l, db := newLists(), newTable()
	key := model.ListKey{App: 0, Shard: 0} // "alice" of app 0: IDs are multiples of 1<<14
	limit := model.Limit{MaxID: key.Compose(4), Policy: model.LimitWrap}
	db.provision(0, 100, limit)
	r := ready(t, l, db)
	ids, err := r.Next(context.Background(), 0, "alice", 7, nil)
	check.Must(t, err)
	want := []int64{1 << 14, 2 << 14, 3 << 14, 1 << 14, 2 << 14, 3 << 14, 1 << 14}
	check.Equal(t, fmt.Sprint(ids), fmt.Sprint(want), "IDs")
}

// An app that is not known is answered at once, as often as it is asked for, and one that is made just
// then is known to its first caller. Callers of what is not there share the reloads.
func TestANewAppIsKnownToItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		r := ready(t, l, db)
		began := time.Now()
		for range 10 {
			check.Is(t, check.Err(r.one(9, "alice")), model.ErrUnknownApp, "unknown app")
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("ten answers took %v", took)
		}
		db.provision(9, 100, model.Limit{Policy: model.LimitReject})
		check.OK(t, check.Err(r.one(9, "alice")), "a new app")
		before := db.countLoads()
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				check.Is(t, check.Err(r.one(77, "alice")), model.ErrUnknownApp)
			})
		}
		callers.Wait()
		if n := db.countLoads() - before; n > 102 {
			t.Errorf("%d reloads for 1000 requests of an unknown app within a second, want 100", n)
		}
	})
}

func (t *table) countLoads() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loads
}

// A shard without a row, and one whose row cannot be used, say so.
func TestUnknownShard(t *testing.T) {
	l, db := newLists(), newTable(1)
	db.change(func(rows map[model.ListKey]model.AllocState) { delete(rows, aliceKey()) })
	db.edit(model.ListKey{App: 1, Shard: 7}, func(row *model.AllocState) { row.Step = 0 })
	r := ready(t, l, db)
	for pass, want := range map[string]string{"alice": "has no row for shard 0 in id_alloc: add it", passOf(7): "correct its row: " + errNoStep.Error()} {
		_, err := r.one(1, pass)
		if !errors.Is(err, model.ErrUnknownShard) || errors.Is(err, model.ErrInvalidArgument) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check.OK(t, check.Err(r.one(1, "bob")), "bob")
}

// everySecond makes the cron jobs run each second.
func everySecond(o *queue.Options) { o.RefillCron, o.ReloadCron = "* * * * * *", "* * * * * *" }

func TestARemovedAppIsCleanedAndComesBackAbove(t *testing.T) {
	l, db := newLists(), newTable(1, 2)
	r := ready(t, l, db, everySecond)
	alice := aliceKey()
	last, err := r.one(1, "alice")
	check.Must(t, err)
	db.change(func(rows map[model.ListKey]model.AllocState) {
		for key := range rows {
			if key.App == 1 {
				delete(rows, key)
			}
		}
	})
	check.Eventually(t, "list deleted", func() error {
		if s := l.State(context.Background(), []model.ListKey{alice})[0]; s.Len != 0 {
			return fmt.Errorf("list holds %d", s.Len)
		}
		return nil
	})
	check.Is(t, check.Err(r.one(1, "alice")), model.ErrUnknownApp, "removed app")
	db.provision(1, 100, model.Limit{Policy: model.LimitReject}) // max_id is 0 again
	var id int64
	check.Eventually(t, "app is back", func() error { id, err = r.one(1, "alice"); return err })
	if id <= last {
		t.Errorf("ID %d after %d", id, last)
	}
}

func TestTheSweepRefillsWhatIsLow(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db, everySecond)
	check.Eventually(t, "all lists filled", func() error {
		for shard := range uint8(model.Shards) {
			key := model.ListKey{App: 1, Shard: shard}
			if s := l.State(context.Background(), []model.ListKey{key})[0]; s.Len < 100 {
				return fmt.Errorf("list %s holds %d", key, s.Len)
			}
		}
		return nil
	})
	key := model.ListKey{App: 1, Shard: 5}
	check.Must(t, check.Err(l.Store.Pop(context.Background(), key, 85))) // another replica's doing
	check.Eventually(t, "refilled by the sweep", func() error {
		if s := l.State(context.Background(), []model.ListKey{key})[0]; s.Len <= 20 {
			return fmt.Errorf("list holds %d", s.Len)
		}
		return nil
	})
	check.OK(t, r.reports.Of(queue.ConditionRefill))
}

// One of three replicas sweeps, and another one once that one is gone; a store that does
// not answer is swept by all.
func TestOneReplicaSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, apps = 2 * time.Minute, 20
		db, l := newTable(), newLists()
		for app := range uint8(apps) {
			db.provision(app, 100, model.Limit{Policy: model.LimitReject})
		}
		var replicas []replica
		var reads []*spied
		for range 3 {
			c := &spied{lists: l}
			reads = append(reads, c)
			replicas = append(replicas, ready(t, l, db, func(o *queue.Options) { o.Lists = c }))
		}
		// sweeps gives how often each replica has swept in so many periods.
		sweeps := func(periods int) (each []int) {
			for _, c := range reads {
				c.calls()
			}
			time.Sleep(time.Duration(periods) * period)
			for _, c := range reads {
				n := 0
				for _, call := range c.calls() {
					n += call.lists
				}
				each = append(each, n/(apps*model.Shards))
			}
			return each
		}
		sum := func(each []int) int { return each[0] + each[1] + each[2] }
		time.Sleep(period) // the first sweep of each, and whose turn it is
		if each := sweeps(10); sum(each) != 10 {
			t.Fatalf("in ten periods the replicas swept %v times", each)
		}
		stop(t, replicas[1].Service)
		if each := sweeps(10); each[1] != 0 || sum(each) != 10 {
			t.Errorf("after one stopped they swept %v times", each)
		}
		l.set(func(l *lists) { l.err = errAway })
		if each := sweeps(3); sum(each) < 5 {
			t.Errorf("while the store was away they swept %v times", each)
		}
		l.set(func(l *lists) { l.err = nil })
		check.Must(t, check.Err(replicas[2].one(1, "alice")))
	})
}

// A sweep leaves four fifths of the time to callers, and does not ask a store on that does
// not answer.
func TestSweepRests(t *testing.T) {
	for name, c := range map[string]struct {
		took, apart time.Duration
		err         error
		asked       int
	}{
		"an app or two at a time": {took: time.Millisecond, apart: 5 * time.Millisecond, asked: 5},
		"a slow store":            {took: 30 * time.Millisecond, apart: 50 * time.Millisecond, asked: 5},
		"no answer":               {took: 3 * time.Second, err: errAway, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, s := newTable(), &spied{lists: newLists(), delay: c.took}
				for app := range uint8(10) {
					db.provision(app, 100, model.Limit{Policy: model.LimitReject})
				}
				ready(t, s.lists, db, func(o *queue.Options) { o.Lists = s })
				time.Sleep(time.Minute)
				s.set(func(l *lists) { l.err = c.err })
				s.calls()
				time.Sleep(2 * time.Minute) // one sweep
				calls := s.calls()
				check.Equal(t, len(calls), c.asked, "calls")
				for i, call := range calls {
					check.Equal(t, call.lists, 2*model.Shards, "lists a call")
					if i > 0 {
						check.Equal(t, call.at.Sub(calls[i-1].at), c.apart, "from call to call")
					}
				}
			})
		})
	}
}

func TestTheStepGrowsWithDemandAndNotWithLoss(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db)
	check.Must(t, check.Err(r.one(1, "alice")))
	l.set(func(l *lists) { l.Store = memstore.New() }) // Redis restarted empty
	check.Must(t, check.Err(r.one(1, "alice")))
	check.Equal(t, db.longest(), 100, "the longest segment after a loss")
	ids, err := r.Next(context.Background(), 1, "alice", model.MaxBatch, nil) // many segments
	check.Must(t, err)
	got := newCollector()
	got.add(ids, 1, "alice")
	got.check(t, model.MaxBatch)
	if n := db.longest(); n < 200 {
		t.Errorf("demand led to a segment of %d", n)
	}
}

// A segment that took half a second to push is long enough.
func TestTheStepDoesNotGrowWhilePushesAreSlow(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db, func(o *queue.Options) { o.Timeout = 30 * time.Second })
	l.set(func(l *lists) {
		l.onPush = func(reqs []model.PushRequest) []model.PushRequest {
			time.Sleep(600 * time.Millisecond)
			return reqs
		}
	})
	check.Must(t, check.Err(r.Next(context.Background(), 1, "alice", 350, nil)))
	// The first may have been pushed before.
	if n := db.longest(); n > 200 {
		t.Errorf("a segment of %d", n)
	}
}

// longest is the length of the longest segment taken.
func (t *table) longest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := int64(0)
	for _, s := range t.taken {
		n = max(n, s.Len())
	}
	return n
}

// A change that is committed counts as soon as Reload has returned.
func TestReloadTakesAChangeOver(t *testing.T) {
	db := newTable(1)
	r := ready(t, newLists(), db)
	check.Must(t, check.Err(r.one(1, "alice")))
	db.change(func(rows map[model.ListKey]model.AllocState) { clear(rows) })
	check.Must(t, r.Reload(t.Context()))
	check.Is(t, check.Err(r.one(1, "alice")), model.ErrUnknownApp, "of a removed app")
	db.fail(errAway)
	if err := r.Reload(t.Context()); !errors.Is(err, errAway) || !errors.Is(r.reports.Of(queue.ConditionReload), errAway) {
		t.Errorf("%v, reported %v", err, r.reports.Of(queue.ConditionReload))
	}
	stop(t, r.Service)
	check.Is(t, r.Reload(t.Context()), model.ErrNotReady, "after the end")
}

// Before the stores have answered there is nothing to reload, and readiness does not
// come by this way.
func TestReloadBeforeTheStart(t *testing.T) {
	l := newLists()
	l.err = errAway
	r := start(t, l, newTable(1))
	if err := r.Reload(t.Context()); !errors.Is(err, model.ErrNotReady) || r.Ready() == nil {
		t.Errorf("%v, ready %v", err, r.Ready())
	}
}

func TestNextReload(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	at := time.Date(2026, 11, 20, 16, 0, 31, 0, time.Local)
	if got, want := r.NextReload(at), time.Date(2026, 11, 20, 16, 2, 30, 0, time.Local); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Whoever switches an app to wrap is warned once, as at a start.
func TestSwitchToWrapWarns(t *testing.T) {
	db, log := newTable(1), &check.Log{}
	r := ready(t, newLists(), db, func(o *queue.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	db.change(func(rows map[model.ListKey]model.AllocState) {
		for key, row := range rows {
			row.Limit = model.Limit{MaxID: 1 << 40, Policy: model.LimitWrap}
			rows[key] = row
		}
	})
	for range 3 {
		check.Must(t, r.Reload(t.Context()))
	}
	check.Equal(t, log.Count("level=WARN"), 1, "warnings")
	check.Equal(t, log.Count("wrap policy"), 1, "warnings of wrap")
}

// Depths are those that a pop, a pass or a sweep has seen last.
func TestSeenTellsOfDepths(t *testing.T) {
	l, db := newLists(), newTable(1, 7)
	r := ready(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 })
	check.Must(t, check.Err(r.one(7, "alice"))) // shard 0, step 100
	check.Eventually(t, "the sweep filled all lists", func() error {
		views := r.Seen()
		if len(views) != 2 || views[0].App != 1 || views[1].App != 7 || views[1].Step != 100 {
			return fmt.Errorf("views: %+v", views)
		}
		if v := views[1]; v.Depths[0] != 99 || v.Depths[63] != 100 || v.Issued != 1 || v.Highest != 100 || v.Refills != model.Shards {
			return fmt.Errorf("app 7: %+v", v)
		}
		if len(views[0].Unused)+len(views[1].Unused) != 0 {
			return fmt.Errorf("unused after the sweep: %v, %v", views[0].Unused, views[1].Unused)
		}
		return nil
	})
}

// What an app has left is that of its poorest shard, and the state of the limit is
// known without asking the store.
func TestSeenTellsOfTheLimit(t *testing.T) {
	l, db := newLists(), newTable()
	limit := model.Limit{MaxID: 4<<14 + 63<<8 + 1, Policy: model.LimitReject} // indices 1…4 of every shard
	db.provision(1, 3, limit)
	db.provision(2, 100, model.Limit{Policy: model.LimitReject})
	r := ready(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 })
	check.Eventually(t, "the first sweep", func() error {
		if v := r.Seen()[1]; v.Refills != 64 {
			return fmt.Errorf("%+v", v)
		}
		return nil
	})
	for i := range int64(4) {
		check.Must(t, check.Err(r.one(1, "alice")))
		if v := r.Seen()[0]; i == 2 && (v.Highest < 3 || v.Left > 0.25 || v.Exhausted != 0) {
			t.Errorf("after three: %+v", v)
		}
	}
	check.Is(t, check.Err(r.one(1, "alice")), model.ErrLimitReached)
	views := r.Seen()
	if v := views[0]; v.Issued != 4 || v.Highest != 4 || v.Left != 0 || v.Exhausted != 1 || v.Limit != limit {
		t.Errorf("at the limit: %+v", v)
	}
	if v := views[1]; v.Left < 0.99 || v.Exhausted != 0 || v.Unconfirmed != 0 {
		t.Errorf("without a limit: %+v", v)
	}
}

// A list whose max_id awaits an operator shows so before a caller is refused, and until the
// operator's word without one.
func TestSeenTellsOfAConfirmationBeforeACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		db.doubt(model.Limit{MaxID: aliceKey().Compose(100_000), Policy: model.LimitReject})
		r := ready(t, l, db)
		check.Equal(t, r.Seen()[0].Unconfirmed, 1, "before a caller")
		db.confirm()
		check.Eventually(t, "it is confirmed", func() error {
			if n := r.Seen()[0].Unconfirmed; n != 0 {
				return fmt.Errorf("%d lists wait", n)
			}
			return nil
		})
	})
}

// A shard of which no index was ever allocated is unused, and no longer once one was. Lists that held
// indices and are all empty are emptied, until one is refilled.
func TestSeenTellsUnusedAndEmptiedShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		r := ready(t, l, db, func(o *queue.Options) { o.RefillCron, o.Timeout = "@yearly", time.Second })
		db.provision(7, 100, model.Limit{Policy: model.LimitReject})
		check.Must(t, check.Err(r.one(7, "alice"))) // shard 0
		if v := r.Seen()[1]; len(v.Unused) != model.Shards-1 || v.Unused[0] != 1 || v.Emptied {
			t.Errorf("after an ID of shard 0: %+v", v)
		}
		db.fail(errAway)
		for err := error(nil); err == nil; _, err = r.one(7, "alice") {
		}
		time.Sleep(100 * time.Millisecond)
		if v := r.Seen()[1]; !v.Emptied {
			t.Errorf("without a database: %+v", v)
		}
		db.fail(nil)
		check.Eventually(t, "refilled", func() error { return check.Err(r.one(7, "alice")) })
		if v := r.Seen()[1]; v.Emptied {
			t.Errorf("refilled: %+v", v)
		}
	})
}

// BenchmarkNext is a caller's part: the IDs are mostly held, and a goroutine pops and
// refills from a store in memory.
func BenchmarkNext(b *testing.B) {
	serve := func(b *testing.B) replica {
		db := newTable()
		db.provision(1, 1_000_000, model.Limit{Policy: model.LimitReject})
		return ready(b, newLists(), db, func(o *queue.Options) { o.MaxStep, o.PrefetchMax = 1_000_000, 10_000 })
	}
	next := func(b *testing.B, r replica, n int, dst []int64) {
		if ids, err := r.Next(context.Background(), 1, "alice", n, dst[:0]); err != nil || len(ids) != n {
			b.Errorf("%d IDs, %v", len(ids), err)
		}
	}
	for name, n := range map[string]int{"one": 1, "hundred": 100} {
		b.Run(name+"/one_goroutine", func(b *testing.B) {
			r, dst := serve(b), make([]int64, n)
			b.ReportAllocs()
			for b.Loop() {
				next(b, r, n, dst)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			r := serve(b)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				dst := make([]int64, n)
				for pb.Next() {
					next(b, r, n, dst)
				}
			})
		})
	}
}

// scrambledTable is a table whose apps are scrambled.
type scrambledTable struct{ *table }

func (t scrambledTable) Load(ctx context.Context) ([]model.ListConfig, error) {
	lists, err := t.table.Load(ctx)
	for i := range lists {
		lists[i].Scramble = "0123456789abcdef0123456789abcdef"
	}
	return lists, err
}

// Two replicas of a scrambled app issue the image of each index once, and can tell it.
func TestScrambledApp(t *testing.T) {
	l, db := newLists(), newTable(1)
	scramble := func(o *queue.Options) { o.Catalogue = scrambledTable{db} }
	replicas := []replica{ready(t, l, db, scramble), ready(t, l, db, scramble)}
	if id, err := replicas[0].one(1, "alice"); err != nil || id != 7193078914403336193 { // the first example of model/testdata
		t.Errorf("the first ID of alice is %d, %v", id, err)
	}
	decoder := model.Decoder{Scramble: replicas[1].Scramble}
	seen := map[any]bool{int64(1): true}
	for i := range 2000 {
		id, err := replicas[i%2].one(1, "alice")
		check.Must(t, err)
		parts, err := decoder.Decode(model.KindQueue, id)
		if index := parts[0].Value; err != nil || seen[index] || index.(int64) > 5000 {
			t.Fatalf("ID %d is %v, %v", id, parts, err)
		}
		seen[parts[0].Value] = true
	}
	check.Equal(t, replicas[0].Scramble(9), "", "secret of an unknown app")
	if v := replicas[0].Seen()[0]; !v.Scramble || replicas[0].Stats().Repeated != 0 {
		t.Errorf("%+v", v)
	}
}
