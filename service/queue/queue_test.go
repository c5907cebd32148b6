package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
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

func TestReplicasNeverRepeat(t *testing.T) {
	l, db := newLists(), newTable(1, 7, 255)
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
	l := newLists()
	r := ready(t, l, newTable(1))
	for range 3 {
		check.Must(t, check.Err(r.one(1, "alice")))
		time.Sleep(550 * time.Millisecond)
	}
	if got := fmt.Sprint(l.popped()); got != "[1 1 1]" && got != "[1 1 1 1]" { // the first may find the list empty
		t.Errorf("pops asked for %s indices, want one each", got)
	}
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

func TestBatchBeyondTheStep(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	ids, err := r.Next(context.Background(), 1, "alice", model.MaxBatch, nil)
	if err != nil || len(ids) != model.MaxBatch {
		t.Fatalf("%d IDs, %v", len(ids), err)
	}
	got := newCollector()
	got.add(ids, 1, "alice")
	got.check(t, model.MaxBatch)
}

func TestExactlyThreeLeft(t *testing.T) {
	l, db := newLists(), newTable(1)
	alice, bob := model.ListKey{App: 1, Shard: model.ShardOf("alice")}, model.ListKey{App: 1, Shard: model.ShardOf("bob")}
	limit := model.Limit{MaxID: alice.Compose(1003), Policy: model.LimitReject}
	db.provision(1, 100, limit)
	db.change(func(rows map[model.ListKey]model.AllocState) {
		row := rows[alice]
		row.Last = 1000
		rows[alice] = row
	})
	a, b := ready(t, l, db), ready(t, l, db)

	// A batch that is too large takes nothing away, from nobody.
	if ids, err := a.Next(context.Background(), 1, "alice", 4, nil); !errors.Is(err, model.ErrLimitReached) || ids != nil {
		t.Fatalf("Next = %v, %v", ids, err)
	}
	got := newCollector()
	id, err := b.one(1, "alice")
	check.Must(t, err)
	got.add([]int64{id}, 1, "alice")
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
	alice := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
	for range 200 { // hold some ahead of demand
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	limit := alice.Compose(205)
	db.change(func(rows map[model.ListKey]model.AllocState) {
		row := rows[alice]
		row.Limit.MaxID = limit
		rows[alice] = row
	})
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
	alice := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
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
	db.change(func(rows map[model.ListKey]model.AllocState) {
		row := rows[alice]
		row.Limit.MaxID = alice.Compose(500) // above the segment that was taken whole
		rows[alice] = row
	})
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
	if fmt.Sprint(ids) != fmt.Sprint(want) {
		t.Errorf("IDs %v, want %v", ids, want)
	}
}

func TestUnknownAppIsFoundWithinASecondAndReloadsAreLimited(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db)
	if _, err := r.one(9, "alice"); !errors.Is(err, model.ErrUnknownApp) {
		t.Fatalf("unknown app: %v", err)
	}
	db.provision(9, 100, model.Limit{Policy: model.LimitReject})
	start := time.Now()
	check.Eventually(t, "new app", func() error { _, err := r.one(9, "alice"); return err })
	if d := time.Since(start); d > time.Second {
		t.Errorf("a new app took %v", d)
	}
	before := db.countLoads()
	for range 1000 {
		_, _ = r.one(77, "alice")
	}
	if n := db.countLoads() - before; n > 20 {
		t.Errorf("%d reloads for 1000 requests of an unknown app", n)
	}
}

func (t *table) countLoads() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loads
}

func TestUnknownShard(t *testing.T) {
	l, db := newLists(), newTable(1)
	db.change(func(rows map[model.ListKey]model.AllocState) {
		delete(rows, model.ListKey{App: 1, Shard: model.ShardOf("alice")})
	})
	r := ready(t, l, db)
	check.Is(t, check.Err(r.one(1, "alice")), model.ErrUnknownShard, "alice")
	check.OK(t, check.Err(r.one(1, "bob")), "bob")
}

// everySecond makes the cron jobs run each second.
func everySecond(o *queue.Options) { o.RefillCron, o.ReloadCron = "* * * * * *", "* * * * * *" }

func TestARemovedAppIsCleanedAndComesBackAbove(t *testing.T) {
	l, db := newLists(), newTable(1, 2)
	r := ready(t, l, db, everySecond)
	alice := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
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
	if _, err := r.one(1, "alice"); !errors.Is(err, model.ErrUnknownApp) {
		t.Fatalf("removed app: %v", err)
	}
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
	if _, err := l.Store.Pop(context.Background(), key, 85); err != nil { // another replica's doing
		t.Fatal(err)
	}
	check.Eventually(t, "refilled by the sweep", func() error {
		if s := l.State(context.Background(), []model.ListKey{key})[0]; s.Len <= 20 {
			return fmt.Errorf("list holds %d", s.Len)
		}
		return nil
	})
	check.OK(t, r.reports.Of(queue.ConditionRefill))
}

func TestTheLowWatermarkRefillsAtOnce(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 })
	key := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
	length := func() int64 { return l.State(context.Background(), []model.ListKey{key})[0].Len }
	check.Eventually(t, "filled", func() error {
		if n := length(); n < 100 {
			return fmt.Errorf("list holds %d", n)
		}
		return nil
	})
	for range 85 {
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	check.Eventually(t, "refilled without a further request", func() error {
		if n := length(); n <= 20 {
			return fmt.Errorf("list holds %d", n)
		}
		return nil
	})
}

func TestTheStepGrowsWithDemandAndNotWithLoss(t *testing.T) {
	l, db := newLists(), newTable(1)
	r := ready(t, l, db)
	check.Must(t, check.Err(r.one(1, "alice")))
	l.set(func(l *lists) { l.Store = memstore.New() }) // Redis restarted empty
	check.Must(t, check.Err(r.one(1, "alice")))
	check.Equal(t, db.longest(), 100, "a lost list led to a segment of")
	check.Must(t, check.Err(r.Next(context.Background(), 1, "alice", 1000, nil)))
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
	if id, err := r.one(1, "alice"); !errors.Is(err, model.ErrUnknownApp) {
		t.Errorf("got %d, %v of a removed app", id, err)
	}
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

// warnings is a log of which only the warnings are kept.
type warnings struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (*warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Level == slog.LevelWarn {
		w.said = append(w.said, r.Message)
	}
	return nil
}

// Whoever switches an app to wrap is warned once, as at a start.
func TestSwitchToWrapWarns(t *testing.T) {
	db, log := newTable(1), &warnings{Handler: slog.DiscardHandler}
	r := ready(t, newLists(), db, func(o *queue.Options) { o.Log = slog.New(log) })
	db.change(func(rows map[model.ListKey]model.AllocState) {
		for key, row := range rows {
			row.Limit = model.Limit{MaxID: 1 << 40, Policy: model.LimitWrap}
			rows[key] = row
		}
	})
	for range 3 {
		check.Must(t, r.Reload(t.Context()))
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if len(log.said) != 1 || !strings.Contains(log.said[0], "wrap policy") {
		t.Errorf("warned %q", log.said)
	}
}
