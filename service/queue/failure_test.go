package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/service/queue"
)

func TestStartsWithoutItsStores(t *testing.T) {
	l, db := newLists(), newTable(1)
	l.set(func(l *lists) { l.err = errAway })
	db.fail(errAway)
	r := start(t, l, db)
	check.Eventually(t, "says what it waits for", func() error {
		if _, err := r.one(1, "alice"); !errors.Is(err, model.ErrNotReady) || !errors.Is(err, errAway) {
			return errors.New("no reason yet")
		}
		return nil
	})
	l.set(func(l *lists) { l.err = nil })
	time.Sleep(100 * time.Millisecond)
	check.Is(t, r.Ready(), model.ErrNotReady, "ready without a database")
	db.fail(nil)
	arrived := time.Now()
	check.Eventually(t, "serves", func() error { _, err := r.one(1, "alice"); return err })
	if d := time.Since(arrived); d > 2*time.Second {
		t.Errorf("served %v after the store's arrival", d)
	}
}

func TestDatabaseAwayServesWhatIsHeldThenRefusesThenRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		db.delay = 2 * time.Millisecond
		r := ready(t, l, db, func(o *queue.Options) { o.Timeout = 100 * time.Millisecond })
		check.Must(t, check.Err(r.one(1, "alice")))
		r.filled(t)
		check.Eventually(t, "the passes are timed", func() error {
			if s := r.Stats(); s.Refills != model.Shards || s.Passes.Count() == 0 || s.Passes.Sum < db.delay || s.FailedPasses != 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		db.fail(errAway)
		served := 0
		var err error
		for range 1000 {
			if _, err = r.one(1, "alice"); err != nil {
				break
			}
			if served++; served == 30 { // one after the other is a hot list
				synctest.Wait()
				if s, v := r.Stats(), r.Seen()[0]; s.Held == 0 || s.Held != v.Held || s.Issued != v.Issued {
					t.Errorf("IDs are held: %+v, %+v", s, v)
				}
			}
		}
		if served < 90 {
			t.Errorf("%d IDs with the database away, the list held about 100", served)
		}
		if !errors.Is(err, model.ErrQueueEmpty) || !errors.Is(err, errAway) {
			t.Errorf("refusal: %v", err)
		}
		if s := r.Stats(); s.Starved == 0 || s.FailedPasses == 0 || r.reports.Of(queue.ConditionRefill) == nil {
			t.Error("the failure was not reported")
		}
		check.OK(t, r.Ready(), "one dry list of 64 makes the mode not ready")
		db.fail(nil)
		check.Eventually(t, "recovers, without a caller", func() error { return r.reports.Of(queue.ConditionRefill) })
		check.OK(t, check.Err(r.one(1, "alice")))
	})
}

// A caller hears the last reason while the next try is under way.
func TestRefusalsKeepTheirReason(t *testing.T) {
	db := newTable(1)
	r := ready(t, newLists(), db, func(o *queue.Options) { o.Timeout = 100 * time.Millisecond })
	db.fail(errAway)
	check.Eventually(t, "the reason is told", func() error {
		if _, err := r.one(1, "alice"); !errors.Is(err, errAway) {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	db.change(func(map[model.ListKey]model.AllocState) { db.delay = 300 * time.Millisecond })
	for range 5 {
		check.Is(t, check.Err(r.one(1, "alice")), errAway, "refusal")
	}
}

// Only when no list has anything left is the mode not ready.
func TestNotReadyOnceEveryListIsDry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		db.change(func(rows map[model.ListKey]model.AllocState) {
			for key := range rows {
				if key.Shard > 1 {
					delete(rows, key)
				}
			}
		})
		r := ready(t, l, db, func(o *queue.Options) { o.Timeout = 50 * time.Millisecond })
		check.Eventually(t, "both lists are filled", func() error {
			for shard := range uint8(2) {
				if _, err := r.one(1, passOf(shard)); err != nil {
					return err
				}
			}
			return nil
		})
		db.fail(errAway)
		dry := func(shard uint8) {
			for {
				if _, err := r.one(1, passOf(shard)); err != nil {
					return
				}
			}
		}
		dry(0)
		check.OK(t, r.Ready(), "one list is dry, the other is not")
		dry(1)
		if err := r.Ready(); !errors.Is(err, model.ErrQueueEmpty) || !errors.Is(err, errAway) {
			t.Errorf("both lists are dry: %v", err)
		}
		db.fail(nil)
		check.Eventually(t, "recovers, without a caller", r.Ready)
	})
}

// Once one list is another deployment's, all are looked at: when all are, the mode is not
// ready, whatever they held; and while one is not, it is.
func TestNotReadyOnceEveryListIsForeign(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db, func(o *queue.Options) { o.Timeout = 50 * time.Millisecond; o.PrefetchMax = 1 })
	r.filled(t)
	check.Must(t, check.Err(r.one(1, "alice")))
	others := func(key model.ListKey) bool { return key != aliceKey() }
	l.set(func(l *lists) { l.foreign = others })
	check.Is(t, check.Err(r.one(1, passOf(aliceKey().Shard+1))), model.ErrForeign, "a foreign list")
	check.Eventually(t, "the others are looked at", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.told) < model.Shards-1 {
			return fmt.Errorf("%d of them", len(l.told))
		}
		return nil
	})
	check.OK(t, r.Ready(), "one list is our own")
	l.set(func(l *lists) { l.foreign = func(model.ListKey) bool { return true } })
	check.Is(t, check.Err(r.one(1, "alice")), model.ErrForeign, "the last one")
	check.Eventually(t, "not ready", func() error {
		if err := r.Ready(); !errors.Is(err, model.ErrForeign) {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	})
	l.set(func(l *lists) { l.foreign = nil })
	check.Eventually(t, "recovers, without a caller", r.Ready)
}

// What failed once is tried again until it works, although nobody asks: the list that
// was not refilled, the pop, and the reading of the apps.
func TestFailuresEndWithTheirCause(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db, func(o *queue.Options) { o.Timeout = 50 * time.Millisecond; o.PrefetchMax = 1 })
	check.Must(t, check.Err(r.one(1, "alice")))
	l.set(func(l *lists) { l.err = errAway })
	db.fail(errAway)
	if _, err := r.one(1, "alice"); !errors.Is(err, model.ErrQueueEmpty) || !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	check.Is(t, r.Reload(t.Context()), errAway)
	conditions := []string{queue.ConditionPop, queue.ConditionReload}
	for _, c := range conditions {
		if r.reports.Of(c) == nil {
			t.Errorf("%s was not reported", c)
		}
	}
	l.set(func(l *lists) { l.err = nil })
	db.fail(nil)
	for _, c := range conditions {
		check.Eventually(t, c+" works again", func() error { return r.reports.Of(c) })
	}
	check.OK(t, check.Err(r.one(1, "alice")))
}

// A store that gives and takes nothing, such as a Redis without memory: a push that fails costs a
// segment, and a pause follows it that doubles, however many callers wait.
func TestAFullStoreCostsFewSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		l.set(func(l *lists) { l.full = errors.New("OOM command not allowed") })
		r := ready(t, l, db, func(o *queue.Options) {
			o.Timeout, o.RefillCron = time.Second, "@yearly" // the first sweep only
		})
		check.Eventually(t, "each list was tried by the first sweep", func() error {
			if len(db.segments()) < model.Shards {
				return errors.New("some have not")
			}
			return nil
		})
		r.refusesMany(t) // for three seconds
		if n := db.askedFor(aliceKey()); n > 5 {
			t.Errorf("%d segments were used up", n)
		}
		l.set(func(l *lists) { l.full = nil })
		check.Eventually(t, "recovers", func() error { _, err := r.one(1, "alice"); return err })
	})
}

// refusesMany has eight callers wait, three times each, and be refused.
func (r replica) refusesMany(t *testing.T) {
	t.Helper()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 3 {
				check.Is(t, check.Err(r.one(1, "alice")), model.ErrQueueEmpty, "refusal")
			}
		})
	}
	callers.Wait()
}

// Pushes that fail for long cost a list a segment each ten seconds, and are no alarm for much longer than
// they do, without a caller.
func TestLostPushesWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		fail := func(err error) { l.set(func(l *lists) { l.full = err }) }
		fail(errAway)
		r := ready(t, l, db, func(o *queue.Options) { o.RefillCron = "@yearly" }) // the first sweep only
		time.Sleep(100 * time.Millisecond)
		err := r.reports.Of(queue.ConditionRefill)
		if err == nil {
			t.Fatal("the failure was not reported")
		}
		err = nil
		fail(nil)
		time.Sleep(5 * time.Second)
		check.OK(t, r.reports.Of(queue.ConditionRefill), "after the store's return")
		check.Must(t, check.Err(r.Next(t.Context(), 1, "alice", 1000, nil)))
		fail(errAway)
		before := db.askedFor(aliceKey())
		l.set(func(l *lists) { l.Store = memstore.New() }) // it restarted empty
		for ; err == nil; _, err = r.one(1, "alice") {     // the first ones are held
		}
		check.Is(t, err, model.ErrQueueEmpty, "refusal")
		time.Sleep(3 * time.Hour)
		if n := db.askedFor(aliceKey()) - before; n < 500 || n > 3*360+8 {
			t.Errorf("%d segments were used up in three hours", n)
		}
		fail(nil)
		time.Sleep(13 * time.Second)
		check.OK(t, r.reports.Of(queue.ConditionRefill), "after the store's return")
		check.OK(t, check.Err(r.one(1, "alice")))
	})
}

// Redis goes away before a refill could free its lock, and comes back with it: lists
// without a caller are no alarm until the lock expires, and cost no segment, even while
// another list fails for good.
func TestALockLeftBehindWithoutACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		r := ready(t, l, db, func(o *queue.Options) { o.RefillCron = "@yearly" }) // the first sweep only
		time.Sleep(time.Second)
		other := aliceKey()
		other.Shard = (other.Shard + 1) % model.Shards
		l.set(func(l *lists) { l.err = errAway })
		check.Is(t, check.Err(r.one(1, "alice")), model.ErrQueueEmpty, "refusal")
		check.Is(t, check.Err(r.one(1, passOf(other.Shard))), model.ErrQueueEmpty, "refusal")
		time.Sleep(5 * time.Second)
		for _, name := range []string{queue.ConditionPop, queue.ConditionRefill} {
			if r.reports.Of(name) == nil {
				t.Fatalf("%s: the failure was not reported", name)
			}
		}
		check.Must(t, check.Err(l.Store.TryLock(t.Context(), []string{aliceKey().String()}, "left", time.Minute)))
		check.OK(t, l.Delete(t.Context(), []model.ListKey{other}))
		db.fail(errAway) // which only the deleted list needs
		l.set(func(l *lists) { l.err = nil })
		time.Sleep(9 * time.Second) // the lock is met, and ignored the next time
		if err := r.reports.Of(queue.ConditionRefill); err == nil || strings.Contains(err.Error(), aliceKey().String()) {
			t.Errorf("with another list that fails: %v", err)
		}
		db.fail(nil)
		time.Sleep(11 * time.Second)
		for _, name := range []string{queue.ConditionPop, queue.ConditionRefill} {
			check.OK(t, r.reports.Of(name), name)
		}
		check.Equal(t, r.Stats().Discarded, queue.Discarded{}, "what was used up")
	})
}

// slowPushes are lists of a store that takes a microsecond for an index, and from all
// pushes in turn.
type slowPushes struct {
	*lists
	turn chan struct{}
	lose bool // what is pushed is not kept, which saves memory
}

func (l slowPushes) Push(ctx context.Context, reqs []model.PushRequest) []error {
	const atOnce = 10_000
	indices := int64(0)
	for _, r := range reqs {
		indices += r.Segment.Len()
	}
	for ; indices > 0; indices -= atOnce {
		l.turn <- struct{}{}
		time.Sleep(time.Duration(min(indices, atOnce)) * time.Microsecond)
		<-l.turn
		if ctx.Err() != nil {
			return slices.Repeat([]error{ctx.Err()}, len(reqs))
		}
	}
	if l.lose {
		return make([]error, len(reqs))
	}
	return l.lists.Push(ctx, reqs)
}

// lostNone wants so many refills, none of which failed.
func (r replica) lostNone(t *testing.T, refills int64) {
	t.Helper()
	if s := r.Stats(); s.Refills != refills || s.Discarded.Failed > 0 || s.FailedPasses > 0 {
		t.Errorf("%+v", s)
	}
}

// All lists of an app become low together. What they need takes longer than a pass may,
// and no segment is lost by that.
func TestListsThatAreLowTogetherTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		const step = 100_000 // 6.4 s for 64 lists
		db.provision(1, step, model.Limit{Policy: model.LimitReject})
		r := ready(t, l, db, func(o *queue.Options) { o.Lists = slowPushes{l, make(chan struct{}, 1), false} })
		time.Sleep(10 * time.Second) // the first sweep
		var ids []int64
		for shard := range uint8(model.Shards) {
			pass := passOf(shard)
			for range 8 {
				var err error
				ids, err = r.Next(t.Context(), 1, pass, model.MaxBatch, ids[:0])
				check.Must(t, err)
			}
			check.Must(t, check.Err(r.one(1, pass)))
		}
		time.Sleep(10 * time.Second)
		r.lostNone(t, 2*model.Shards)
	})
}

// The same of lists that have run dry: whoever waits for them passes by those that wait
// for their turn, and not by one another.
func TestListsThatRunDryTogetherTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		const step = 100_000
		r := ready(t, l, db, func(o *queue.Options) {
			o.Lists, o.Timeout = slowPushes{l, make(chan struct{}, 1), false}, 10*time.Second
		})
		db.provision(1, step, model.Limit{Policy: model.LimitReject})
		var wg sync.WaitGroup
		for shard := range uint8(model.Shards) {
			wg.Go(func() { check.OK(t, check.Err(r.one(1, passOf(shard)))) })
		}
		wg.Wait()
		r.lostNone(t, model.Shards)
	})
}

// The same of many apps, which are filled for the first time.
func TestListsOfManyAppsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const apps, step = 16, 100_000 // 102 s
		l, db := newLists(), newTable()
		for app := range uint8(apps) {
			db.provision(app, step, model.Limit{Policy: model.LimitReject})
		}
		time.Sleep(time.Until(time.Now().Truncate(2 * time.Minute).Add(2*time.Minute + time.Second))) // the next sweep is far
		r := ready(t, l, db, func(o *queue.Options) { o.Lists = slowPushes{l, make(chan struct{}, 1), true} })
		time.Sleep(110 * time.Second)
		r.lostNone(t, apps*model.Shards)
	})
}

// slowUnlocks are lists whose locks are freed within a second.
type slowUnlocks struct{ *lists }

func (l slowUnlocks) Unlock(ctx context.Context, names []string, token string) error {
	time.Sleep(time.Second)
	return l.lists.Unlock(ctx, names, token)
}

// A list that becomes low again while a pass is under way that has pushed already is refilled
// afterwards, though nobody asks for its indices any more.
func TestALowListIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		db.provision(1, 100, model.Limit{Policy: model.LimitReject})
		time.Sleep(time.Until(time.Now().Truncate(2 * time.Minute).Add(2*time.Minute + time.Second))) // the next sweep is far
		r := ready(t, l, db, func(o *queue.Options) { o.Locker, o.PrefetchMax = slowUnlocks{l}, 1 })
		left := func() int64 { return l.Store.State(t.Context(), []model.ListKey{aliceKey()})[0].Len }
		time.Sleep(10 * time.Second) // the first fill
		for taken := left(); taken > 10; taken-- {
			check.Must(t, check.Err(r.one(1, "alice")))
		}
		time.Sleep(500 * time.Millisecond) // a pass has pushed
		if left() < 100 || db.askedFor(aliceKey()) != 2 {
			t.Fatalf("%d indices after %d segments", left(), db.askedFor(aliceKey()))
		}
		for taken := left(); taken > 10; taken-- {
			check.Must(t, check.Err(r.one(1, "alice")))
		}
		check.Equal(t, db.askedFor(aliceKey()), 2, "segments before the pass ends")
		time.Sleep(10 * time.Second)
		if left() < 100 {
			t.Errorf("the list has %d indices", left())
		}
	})
}

// A service that stops leaves alone what waits for its turn.
func TestNoPassBeginsWhileTheServiceStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		for app := range uint8(16) {
			db.provision(app, 100_000, model.Limit{Policy: model.LimitReject})
		}
		r := ready(t, l, db, func(o *queue.Options) { o.Lists = slowPushes{l, make(chan struct{}, 1), true} })
		time.Sleep(3 * time.Second)
		before := r.Stats().Passes.Count()
		stop(t, r.Service)
		if n := r.Stats().Passes.Count() - before; n > 4 { // those under way
			t.Errorf("%d passes ended after the stop began", n)
		}
	})
}

// A long segment arrives in parts: whoever finds one is served.
func TestCallersGetTheFirstPartOfASegmentThatIsOnItsWay(t *testing.T) {
	l, db := newLists(), newTable()
	r := ready(t, l, db)
	alice, served := aliceKey(), make(chan struct{})
	l.set(func(l *lists) {
		l.onPush = func(reqs []model.PushRequest) []model.PushRequest {
			for i := range reqs {
				if part := reqs[i]; part.Key == alice && part.Segment.First == 1 {
					part.Segment.Last = 10
					reqs[i].Segment.First, reqs[i].Cap = 11, part.Cap+10
					check.OK(t, l.Store.Push(context.Background(), []model.PushRequest{part})[0])
					<-served
				}
			}
			return reqs
		}
	})
	db.provision(1, 100, model.Limit{Policy: model.LimitReject})
	got := newCollector()
	check.Eventually(t, "the first ten", func() error {
		ids, err := r.Next(context.Background(), 1, "alice", 10, nil)
		got.add(ids, 1, "alice")
		return err
	})
	close(served)
	got.take(t, r, "alice", 90)
	got.check(t, 100)
	if last := alice.Compose(100); !got.seen[last] {
		t.Errorf("ID %d is missing: the other parts were given up", last)
	}
}

// A replica that died with the lock in hand does not stop the others.
func TestALockOfTheDeadIsOutlived(t *testing.T) {
	l, db := newLists(), newTable()
	r := ready(t, l, db)
	db.provision(1, 100, model.Limit{Policy: model.LimitReject})
	key := aliceKey()
	check.Must(t, check.Err(l.Store.TryLock(context.Background(), []string{key.String()}, "dead", time.Minute)))
	check.Eventually(t, "served although it is locked", func() error { _, err := r.one(1, "alice"); return err })
}

func TestASegmentOfAnotherHistoryIsDropped(t *testing.T) {
	l, db := newLists(), newTable(1)
	var dropped atomic.Bool // a pass over other lists may push before the one that has alice's
	l.onPush = func(reqs []model.PushRequest) []model.PushRequest {
		for i := range reqs {
			if reqs[i].Key == aliceKey() && dropped.CompareAndSwap(false, true) {
				reqs[i].Life = "before the failover"
			}
		}
		return reqs
	}
	r := ready(t, l, db)
	id, err := r.one(1, "alice")
	check.Must(t, err)
	if id <= 100<<14 {
		t.Errorf("ID %d is of the dropped segment", id)
	}
	if s := r.Stats(); s.Discarded.History == 0 {
		t.Errorf("stats: %+v", s)
	}
}

func TestTheTripwireRefusesWhatCameBefore(t *testing.T) {
	l, db := newLists(), newTable(1)
	first := true
	l.onPop = func(p model.Popped) model.Popped {
		if len(p.Indices) > 0 {
			if !first {
				p.Indices = append([]int64{1, 1}, p.Indices...)
			}
			first = false
		}
		return p
	}
	r := ready(t, l, db)
	got := newCollector()
	for range 50 {
		got.take(t, r, "alice", 1)
	}
	got.check(t, 50)
	if s := r.Stats(); s.Repeated < 2 {
		t.Errorf("stats: %+v", s)
	}
}

func TestStopFailsWhoWaitsAndMayBeCalledTwice(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db)
	db.fail(errAway)
	l.set(func(l *lists) { l.err = errAway })
	done := make(chan error)
	go func() { _, err := r.one(1, "nobody has this yet"); done <- err }()
	time.Sleep(20 * time.Millisecond)
	stop(t, r.Service)
	check.Is(t, <-done, model.ErrNotReady, "waiter")
	check.Is(t, check.Err(r.one(1, "bob")), model.ErrNotReady, "after stop")
	stop(t, r.Service)
}

func TestACallerThatLeavesLosesNothing(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db)
	check.Eventually(t, "first", func() error { _, err := r.one(1, "alice"); return err })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 10 {
		_, _ = r.Next(ctx, 1, "alice", 50, nil)
	}
	ids, err := r.Next(context.Background(), 1, "alice", 500, nil)
	check.Must(t, err)
	if parts, _ := model.DecodeQueueID(ids[0]); parts.Index > 600 {
		t.Errorf("index %d: callers that left cost indices", parts.Index)
	}
}

func TestAnUnvouchedDatabaseMakesASmallSpaceWait(t *testing.T) {
	l, db := newLists(), newTable(1)
	db.doubt(model.Limit{MaxID: aliceKey().Compose(100_000), Policy: model.LimitReject})
	r := ready(t, l, db, func(o *queue.Options) { o.Timeout = time.Minute })
	for range 3 { // at once, as nobody is to wait or to try again
		_, err := r.one(1, "alice")
		if !errors.Is(err, model.ErrQueueEmpty) || !errors.Is(err, model.ErrUnconfirmed) || strings.Contains(err.Error(), "try again") {
			t.Errorf("one: %v", err)
		}
	}
	check.Equal(t, r.Stats().Starved, 3, "callers that got nothing")
	for range 200 { // lists that work hide none that fails
		check.Must(t, check.Err(r.one(1, "hello")))
	}
	check.Is(t, r.reports.Of(queue.ConditionRefill), model.ErrUnconfirmed, "reported")
	check.Equal(t, r.Seen()[0].Unconfirmed, 1, "lists are unconfirmed")
	db.confirm()
	check.Eventually(t, "it ends with its cause, without a caller", func() error { return r.reports.Of(queue.ConditionRefill) })
	check.OK(t, check.Err(r.one(1, "alice")))
	check.Equal(t, r.Seen()[0].Unconfirmed, 0, "lists are unconfirmed still")
}

func TestAnUnvouchedDatabaseMakesALargeSpaceJump(t *testing.T) {
	l, db := newLists(), newTable(1)
	db.doubt(model.Limit{})
	r := ready(t, l, db)
	id, err := r.one(1, "alice")
	if err != nil || id <= aliceKey().Compose(61_000) {
		t.Errorf("one = %d, %v, want an index above 61000", id, err)
	}
	if s := r.Stats(); s.Jumps != 1 || s.Jumped < 60_000 {
		t.Errorf("stats: %+v", s)
	}
}

// A store that is full says so before a segment is taken, whoever waits and however
// long, and it never passes for one whose locks another replica holds.
func TestAStoreThatTakesNoWritesCostsNoSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		l.set(func(l *lists) { l.readOnly = errors.New("OOM command not allowed") })
		r := ready(t, l, db, func(o *queue.Options) { o.Timeout = time.Second }, everySecond)
		r.refusesMany(t)
		check.Equal(t, len(db.segments()), 0, "segments that were used up")
		if r.reports.Of(queue.ConditionRefill) == nil {
			t.Error("nothing was reported")
		}
		l.set(func(l *lists) { l.readOnly = nil })
		check.Eventually(t, "recovers", func() error { _, err := r.one(1, "alice"); return err })
	})
}

// A list of few indices, here of an app whose IDs must stay below 2^31, is filled with a thousandth of what is
// left, and with what callers wait for.
func TestAListOfFewIndicesIsFilledLittleByLittle(t *testing.T) {
	l, db := newLists(), newTable()
	db.provision(1, 1000, model.Limit{MaxID: 1 << 31, Policy: model.LimitReject})
	r := ready(t, l, db)
	got := newCollector()
	for range 2000 {
		got.take(t, r, "alice", 1)
	}
	got.check(t, 2000)
	if longest, n := db.longest(), db.askedFor(aliceKey()); longest < 100 || longest > 140 || n > 40 {
		t.Errorf("%d segments, the longest of %d indices", n, longest)
	}
	if held := r.Stats().Held; held > 1 {
		t.Errorf("%d IDs are held ahead", held)
	}
	ids, err := r.Next(context.Background(), 1, "a", 5000, nil)
	if err != nil || len(ids) != 5000 {
		t.Errorf("a batch of %d: %v", len(ids), err)
	}
}
