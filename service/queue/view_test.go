package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/queue"
)

func TestViewsShowDepths(t *testing.T) {
	l, db := newLists(), newTable(1, 7)
	r := ready(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 })
	if _, err := r.one(7, "alice"); err != nil { // shard 0, step 100
		t.Fatal(err)
	}
	check.Eventually(t, "the sweep filled all lists", func() error {
		views := r.Views(t.Context())
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
	l.set(func(l *lists) { l.err = errAway })
	check.Eventually(t, "unknown with the store away", func() error {
		if got := r.Views(t.Context())[1].Depths; got != [model.Shards]int64(unknown()) {
			return fmt.Errorf("depths: %v", got)
		}
		return nil
	})
}

func unknown() []int64 {
	out := make([]int64, model.Shards)
	for i := range out {
		out[i] = -1
	}
	return out
}

// asked counts how often the lists were asked for their state, and may hold that up.
type asked struct {
	*lists
	mu    sync.Mutex
	count int
	delay time.Duration
}

func (a *asked) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	a.mu.Lock()
	a.count++
	delay := a.delay
	a.mu.Unlock()
	time.Sleep(delay)
	return a.lists.State(ctx, keys)
}

func (a *asked) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// However many look, the store is asked once a second; whoever gives up keeps the
// others from nothing.
func TestViewsShareOneReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{lists: newLists()}
		r := ready(t, a.lists, newTable(1), func(o *queue.Options) { o.Lists = a })
		time.Sleep(2 * time.Second)
		before := a.times()
		for range 50 {
			r.Views(t.Context())
		}
		if n := a.times() - before; n != 1 {
			t.Errorf("50 looks within a second asked %d times, want once", n)
		}
		time.Sleep(time.Second)
		a.mu.Lock()
		a.delay = 100 * time.Millisecond
		a.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begun := time.Now()
		r.Views(ctx)
		check.Equal(t, time.Since(begun), time.Millisecond, "a look of 1 ms took")
		r.Views(t.Context())
		if n, took := a.times()-before, time.Since(begun); n != 2 || took != 100*time.Millisecond {
			t.Errorf("asked %d times, want 2; the second look ended after %v, want with the first reading", n, took)
		}
		a.mu.Lock()
		a.delay = 2 * time.Second
		a.mu.Unlock()
		time.Sleep(time.Second)
		r.Views(t.Context()) // a slow one
		for range 70 {
			time.Sleep(100 * time.Millisecond)
			r.Views(t.Context())
		}
		if n := a.times() - before; n != 3 {
			t.Errorf("asked %d times, want 3: a reading of 2 s is good for 8", n)
		}
	})
}

// What an app has left is that of its poorest shard, and the state of the limit is
// known without asking the store.
func TestSeenTellsOfTheLimit(t *testing.T) {
	l, db := newLists(), newTable()
	limit := model.Limit{MaxID: 4<<14 + 63<<8 + 1, Policy: model.LimitReject} // indices 1…4 of every shard
	db.provision(1, 3, limit)
	db.provision(2, 100, model.Limit{Policy: model.LimitReject})
	db.provision(3, 4, limit) // nobody asks for it, and it is left alone
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
	if _, err := r.one(1, "alice"); !errors.Is(err, model.ErrLimitReached) {
		t.Fatal(err)
	}
	views := r.Seen()
	if v := views[0]; v.Issued != 4 || v.Highest != 4 || v.Left != 0 || v.Exhausted != 1 || v.Limit != limit {
		t.Errorf("at the limit: %+v", v)
	}
	if v := views[2]; v.Refills != 0 || v.Left != 1 || v.Exhausted != 0 {
		t.Errorf("unused: %+v", v)
	}
	if v := views[1]; v.Left < 0.99 || v.Exhausted != 0 || v.Unconfirmed != 0 {
		t.Errorf("without a limit: %+v", v)
	}
}

// The passes are timed, what failed is counted, and what is held is shown.
func TestStatsOfRefillsAndHeld(t *testing.T) {
	l, db := newLists(), newTable(1)
	db.delay = 2 * time.Millisecond
	r := ready(t, l, db)
	check.Eventually(t, "the first sweep", func() error {
		if s := r.Stats(); s.Refills != 64 || s.Passes.Count() == 0 || s.Passes.Sum < 2*time.Millisecond || s.FailedPasses != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	for range 30 { // one after the other is a hot list
		check.Must(t, check.Err(r.one(1, "alice")))
	}
	check.Eventually(t, "IDs are held, as many as the view says", func() error {
		if s, v := r.Stats(), r.Seen()[0]; s.Held == 0 || s.Held != v.Held || s.Issued != v.Issued {
			return fmt.Errorf("%+v, %+v", s, v)
		}
		return nil
	})
	db.fail(errAway)
	for range 200 {
		if _, err := r.one(1, "alice"); err != nil {
			break
		}
	}
	check.Eventually(t, "a failed pass", func() error {
		if s := r.Stats(); s.FailedPasses == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// A list whose max_id awaits an operator shows so, until its refill works again.
func TestSeenTellsOfAConfirmation(t *testing.T) {
	l, db := newLists(), newTable(1)
	key := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
	row := model.AllocState{
		Counter: model.Counter{Last: 1000, At: time.Now().Add(-time.Minute), Doubt: 60_000},
		Key:     key, Step: 100, Limit: model.Limit{MaxID: key.Compose(100_000), Policy: model.LimitReject},
	}
	db.change(func(rows map[model.ListKey]model.AllocState) { rows[key] = row })
	r := ready(t, l, db, func(o *queue.Options) { o.Timeout = 100 * time.Millisecond })
	wait := func(what string, want int) {
		t.Helper()
		check.Eventually(t, what, func() error {
			_, _ = r.one(1, "alice") // its refill is what is looked at
			if v := r.Seen()[0]; v.Unconfirmed != want {
				return fmt.Errorf("%+v", v)
			}
			return nil
		})
	}
	wait("it waits", 1)
	row.Doubt = 0 // confirmed
	db.change(func(rows map[model.ListKey]model.AllocState) { rows[key] = row })
	wait("it goes on", 0)
}

// A shard of which no index was ever allocated is unused, and no longer once one was.
func TestViewsTellUnusedShards(t *testing.T) {
	db := newTable(1)
	r := ready(t, newLists(), db, func(o *queue.Options) { o.RefillCron = "0 0 0 1 1 *" })
	db.provision(7, 100, model.Limit{Policy: model.LimitReject})
	if _, err := r.one(7, "alice"); err != nil { // shard 0
		t.Fatal(err)
	}
	if got := r.Seen()[1].Unused; len(got) != model.Shards-1 || got[0] != 1 {
		t.Errorf("after an ID of shard 0 unused are %v", got)
	}
}
