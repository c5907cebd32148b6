package queue_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/queue"
)

// What callers get while the stores work: IDs, limits, apps that come and go, and what is shown of them.

// IDs are appended, the first one of alice is known, and an error appends nothing.
func TestNext(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	ids, err := r.Next(t.Context(), 1, idtext.ShardOf("alice"), 3, []int64{42})
	if err != nil || !slices.Equal(ids, []int64{42, 16385, 16385 + 1<<14, 16385 + 2<<14}) {
		t.Errorf("Next = %v, %v", ids, err)
	}
	for _, c := range []struct {
		app   int
		shard uint8
		want  error
	}{
		{-1, 0, model.ErrInvalidArgument},
		{256, 0, model.ErrInvalidArgument},
		{1, 64, model.ErrInvalidArgument},
		{2, 63, model.ErrUnknownApp},
	} {
		if ids, err := r.Next(t.Context(), c.app, c.shard, 1, []int64{42}); !errors.Is(err, c.want) || len(ids) != 1 {
			t.Errorf("Next(%d, %d) = %v, %v", c.app, c.shard, ids, err)
		}
	}
}

// Of the last indices below the limit none is lost: not by a batch that is too large, and not by another
// replica.
func TestExactlyThreeLeft(t *testing.T) {
	l, db := newLists(), newTable()
	db.provision(1, 100, reject(1003))
	db.edit(aliceKey(), func(row *model.AllocState) { row.Last = 1000 })
	a, b := ready(t, l, db), ready(t, l, db)
	ids, err := a.Next(t.Context(), 1, idtext.ShardOf("alice"), 4, nil)
	if !errors.Is(err, model.ErrLimitReached) || ids != nil {
		t.Fatalf("Next = %v, %v", ids, err)
	}
	got := newCollector()
	for range 20 {
		for _, r := range []replica{a, b} {
			if id, err := r.one(1, "alice"); err == nil {
				got.add(id)
			} else {
				check.Is(t, err, model.ErrLimitReached)
			}
		}
	}
	got.check(t, 3)
	check.OK(t, check.Err(a.one(1, "bob")), "of another shard")
}

// A limit that is lowered counts for what is held, all that is left below it comes, and one that is raised
// counts at once. Callers of a list at its limit do not each cost a transaction.
func TestTheLimitMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable()
		db.provision(1, 1000, reject(0))
		r := ready(t, l, db)
		got := newCollector()
		for range 60 { // some are held ahead of demand
			got.take(t, r, 1)
		}
		limit := func(last int64) {
			db.edit(aliceKey(), func(row *model.AllocState) { row.Limit = reject(last) })
			check.Must(t, r.Reload(t.Context()))
		}
		limit(61)
		got.take(t, r, 1)
		before := db.asks()
		for range 300 {
			check.Is(t, r.alice(), model.ErrLimitReached)
			time.Sleep(10 * time.Millisecond)
		}
		if n := db.asks() - before; n > 5 || r.wasted("over_limit") == 0 {
			t.Errorf("%d segments were asked for in three seconds, %+v", n, r.Status())
		}
		limit(5000)
		got.take(t, r, 1)
		got.check(t, 62)
		check.Equal(t, r.counted("repeated_indices_total"), 0, "repeated")
	})
}

// Past a limit that wraps IDs continue from the beginning, without 0.
func TestWrap(t *testing.T) {
	l, db, log := newLists(), newTable(), &check.Log{}
	key := model.ListKey{App: 0, Shard: 0} // "alice" of app 0: IDs are multiples of 1<<14
	db.provision(0, 100, model.Limit{MaxID: key.Compose(4), Policy: model.LimitReject})
	r := ready(t, l, db, func(o *queue.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
	db.provision(0, 100, model.Limit{MaxID: key.Compose(4), Policy: model.LimitWrap})
	for range 3 {
		check.Must(t, r.Reload(t.Context()))
	}
	check.Equal(t, log.Count("use the limit policy reject"), 1, "warnings of wrap")
	ids, err := r.Next(t.Context(), 0, idtext.ShardOf("alice"), 7, nil)
	check.Must(t, err)
	last := int64(0)
	for _, id := range ids {
		if want := last%3 + 1; id != want<<14 {
			t.Fatalf("IDs %v", ids)
		}
		last = id >> 14
	}
}

// A list of few indices, here of an app whose IDs must stay below 2^31, is filled with a thousandth of what is
// left, and with what callers wait for.
func TestAListOfFewIndicesIsFilledLittleByLittle(t *testing.T) {
	l, db := newLists(), newTable()
	db.provision(1, 1000, model.Limit{MaxID: 1 << 31, Policy: model.LimitReject})
	r := ready(t, l, db)
	got := newCollector()
	for range 2000 {
		got.take(t, r, 1)
	}
	if longest, n := db.longest(), db.asks(); longest < 100 || longest > 140 || n > 40 {
		t.Errorf("%d segments, the longest of %d indices", n, longest)
	}
	if held := r.Status().Held; held > 1 {
		t.Errorf("%d IDs are held ahead", held)
	}
	got.take(t, r, 5000)
	got.check(t, 7000)
}

// An app that is made is known to its first caller, and unknown ones are answered at once; callers of what is
// not there share the reloads.
func TestUnknownApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(1)
		db.set(func(db *table) { delete(db.rows, aliceKey()) })
		db.edit(model.ListKey{App: 1, Shard: 7}, func(row *model.AllocState) { row.Step = 0 })
		r := ready(t, l, db)
		for pass, want := range map[string]string{
			"alice":   "add its row to id_alloc: shard is not provisioned: app 1 has no row for shard 0",
			passOf(7): "correct its row: shard is not provisioned: " + model.Message(errNoStep),
		} {
			_, err := r.one(1, pass)
			if !errors.Is(err, model.ErrUnknownShard) || errors.Is(err, model.ErrInvalidArgument) ||
				!strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		began, before := time.Now(), db.countLoads()
		check.Is(t, check.Err(r.one(9, "alice")), model.ErrUnknownApp)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("an answer took %v", took)
		}
		db.provision(9, 100, reject(0))
		check.OK(t, check.Err(r.one(9, "alice")), "a new app")
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				check.Is(t, check.Err(r.one(77, "alice")), model.ErrUnknownApp)
			})
		}
		callers.Wait()
		if n := db.countLoads() - before; n > 14 {
			t.Errorf("%d reloads for 1000 requests of an unknown app within a second", n)
		}
	})
}

// A change that is committed counts as soon as Reload has returned. The lists of an app that is removed are
// deleted, and continue above their marks when it is made again.
func TestReload(t *testing.T) {
	l, db := newLists(), newTable(1, 2)
	r := ready(t, l, db)
	var before int64
	for range 60 { // some are held ahead of demand
		var err error
		before, err = r.one(1, "alice")
		check.Must(t, err)
	}
	wrong := model.ListKey{App: 2, Shard: 7}
	for l.depth(wrong) == 0 { // it is filled in the background
		time.Sleep(time.Millisecond)
	}
	db.edit(wrong, func(row *model.AllocState) { row.Step = 0 })
	db.remove(1)
	check.Must(t, r.Reload(t.Context()))
	check.Equal(t, l.depth(wrong) > 0, true, "indices of a row that cannot be used are kept")
	check.Equal(t, r.wasted("dropped") > 0, true, "what a removed app holds is given up")
	check.Is(t, r.alice(), model.ErrUnknownApp, "of a removed app")
	check.Equal(t, l.depth(aliceKey()), 0, "indices of a removed app")
	db.provision(1, 100, reject(0)) // max_id is 0 again
	check.Must(t, r.Reload(t.Context()))
	if id, err := r.one(1, "alice"); err != nil || id <= before {
		t.Errorf("ID %d, %v after %d", id, err, before)
	}
	check.Equal(t, r.counted("issued_total"), 61, "issued")
	db.fail(errAway)
	check.Is(t, r.Reload(t.Context()), errAway)
	stop(t, r.Service)
	check.Is(t, r.Reload(t.Context()), model.ErrNotReady, "after the end")
	at := time.Date(2026, 11, 20, 16, 0, 31, 0, time.Local)
	if got, want := r.NextReload(at), at.Add(119*time.Second); !got.Equal(want) {
		t.Errorf("the next reload is at %v, want %v", got, want)
	}
	check.Has(t, r.NextReload(time.Now()).String(), " m=+", "comes when the clock was set back, too")
}

// Segments grow when callers used the last one up, and not when it vanished.
func TestStep(t *testing.T) {
	for name, c := range map[string]struct {
		during func(*testing.T, *lists, replica)
		least  int64 // the longest segment
		most   int64
	}{
		"demand": {func(t *testing.T, _ *lists, r replica) {
			newCollector().take(t, r, model.MaxBatch)
		}, 200, 100_000},
		"a loss": {func(t *testing.T, l *lists, r replica) {
			for range 2 { // seen by a pop, and by the sweep
				check.Must(t, r.alice())
				l.restart()
			}
			time.Sleep(3 * time.Minute)
		}, 100, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, db := newLists(), newTable(1)
				c.during(t, l, ready(t, l, db, timeout(time.Minute)))
				if n := db.longest(); n < c.least || n > c.most {
					t.Errorf("the longest segment has %d indices", n)
				}
			})
		})
	}
}

// What is shown of an app: the depths that a pop, a pass or a sweep has seen last, and what its poorest shard
// has left.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := newLists(), newTable(7)
		// indices 1…4 of every shard
		db.provision(1, 3, model.Limit{MaxID: 4<<14 + 63<<8 + 1, Policy: model.LimitReject})
		r := start(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 })
		synctest.Wait() // it has read the apps, and no time has passed in which lists are filled
		if v := r.Seen()[1]; len(v.Unused) != model.Shards || v.Unused[0] != 0 {
			t.Errorf("before an ID: %+v", v)
		}
		check.Must(t, check.Err(r.one(7, "alice")))
		time.Sleep(time.Second) // the first fill
		if v := r.Seen()[1]; v.App != 7 || v.Step != 100 || v.Depths[0] != 99 || v.Depths[63] != 100 || v.Issued != 1 ||
			v.Highest != 100 || v.Refills != model.Shards || len(v.Unused) != 0 || v.Left < 0.99 || v.Exhausted != 0 {
			t.Errorf("without a limit: %+v", v)
		}
		for i := range int64(4) {
			check.Must(t, r.alice())
			if v := r.Seen()[0]; i == 2 && (v.Highest < 3 || v.Left > 0.25 || v.Exhausted != 0) {
				t.Errorf("after three: %+v", v)
			}
		}
		check.Is(t, r.alice(), model.ErrLimitReached)
		if v := r.Seen()[0]; v.Issued != 4 || v.Highest != 4 || v.Left != 0 || v.Exhausted != 1 ||
			v.MaxID != 4<<14+63<<8+1 {
			t.Errorf("at the limit: %+v", v)
		}
	})
}

// A scrambled app issues the images of its indices, and another replica can tell them.
func TestScrambledApp(t *testing.T) {
	l, db := newLists(), newTable(1)
	db.scramble = "0123456789abcdef0123456789abcdef"
	r := ready(t, l, db)
	ids, err := r.Next(t.Context(), 1, idtext.ShardOf("alice"), 2000, nil)
	check.Must(t, err)
	other := ready(t, l, db)
	check.Equal(t, ids[0], 7193078914403336193, "the first ID of alice, an example of model/testdata")
	decoder := model.Decoder{Scramble: other.Scramble}
	last := int64(0)
	for _, id := range ids {
		parts, err := decoder.Decode(model.KindQueue, id, 0)
		index := parts[0].Value.(int64)
		if err != nil || index <= last {
			t.Fatalf("ID %d is %v after index %d, %v", id, parts, last, err)
		}
		last = index
	}
	check.Equal(t, r.Scramble(9), "", "secret of an unknown app")
	check.Equal(t, r.Seen()[0].Scramble, true, "that it is scrambled")
}
