package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/service/queue"
)

// One store restarts, weeks later the other one, and so on: each time what one has
// lost is settled from the other, for lists that are idle or were never used too, without
// a segment. So no restart ever finds that neither can vouch.
func TestRestartsOfOneStoreNeverAddUp(t *testing.T) {
	l, db := newLists(), newTable()
	alice := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
	idle := model.ListKey{App: 1, Shard: model.ShardOf("a")}
	unused := model.ListKey{App: 1, Shard: 63}
	db.provision(1, 100, model.Limit{MaxID: 1 << 31, Policy: model.LimitReject}) // a jump would wait for an operator
	r := ready(t, l, db, everySecond)
	got := newCollector()
	take := func(pass string) {
		t.Helper()
		ids, err := r.Next(context.Background(), 1, pass, 10, nil)
		check.Must(t, err)
		got.add(ids, 1, pass)
	}
	take("alice")
	take("a")
	var marked map[model.ListKey]int64
	settled := func() error {
		db.mu.Lock()
		defer db.mu.Unlock()
		for _, key := range []model.ListKey{alice, idle, unused} {
			row := db.rows[key]
			l.mu.Lock()
			st := l.Store.State(context.Background(), []model.ListKey{key})[0]
			l.mu.Unlock()
			if row.Doubt != 0 || row.Life != st.History || st.HighWater < row.Last {
				return fmt.Errorf("list %s: row %+v, store %+v", key, row.Counter, st)
			}
			marked[key] = row.Last
		}
		return nil
	}
	for week := range 3 {
		marked = map[model.ListKey]int64{}
		check.Eventually(t, "settled", settled)
		before := len(db.segments())
		db.change(func(rows map[model.ListKey]model.AllocState) { // the database has restarted
			for key, row := range rows {
				row.Doubt = 5_000_000
				rows[key] = row
			}
		})
		check.Eventually(t, "the doubt is over", settled)
		l.set(func(l *lists) { l.Store = memstore.New() }) // the lists' store has
		check.Eventually(t, "the marks are back", settled)
		check.Equal(t, len(db.segments()) - before, 0, "week", week, "segments were taken")
		take("alice")
		take([]string{"b", "c", "d"}[week]) // for the first time
	}
	got.check(t, 80)
	if s := r.Stats(); s.Jumps != 0 || s.Repeated != 0 {
		t.Errorf("stats: %+v", s)
	}
	db.change(func(rows map[model.ListKey]model.AllocState) {
		if row := rows[unused]; row.Last != 0 {
			t.Errorf("a list that nobody used: %+v", row)
		}
	})
}

// A store that is full says so before a segment is taken, whoever waits and however
// long, and it never passes for one whose locks another replica holds.
func TestAStoreThatTakesNoWritesCostsNoSegment(t *testing.T) {
	l, db := newLists(), newTable(1)
	l.set(func(l *lists) { l.readOnly = errors.New("OOM command not allowed") })
	r := ready(t, l, db, func(o *queue.Options) { o.Timeout = time.Second }, everySecond)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 3 {
				check.Is(t, check.Err(r.one(1, "alice")), model.ErrQueueEmpty, "refusal")
			}
		})
	}
	callers.Wait()
	check.Equal(t, len(db.segments()), 0, "segments were used up in 3 s")
	if r.reports.Of(queue.ConditionRefill) == nil {
		t.Error("nothing was reported")
	}
	l.set(func(l *lists) { l.readOnly = nil })
	check.Eventually(t, "recovers", func() error { _, err := r.one(1, "alice"); return err })
}

// An app whose IDs must stay below 2^31 has 131,071 indices in each shard. It survives
// a thousand restarts of the store of lists and of every replica.
func TestANarrowListSurvivesRestarts(t *testing.T) {
	db := newTable()
	db.provision(1, 1000, model.Limit{MaxID: 1 << 31, Policy: model.LimitReject})
	alice := model.ListKey{App: 1, Shard: model.ShardOf("alice")}
	got, restarts := newCollector(), 1000
	if testing.Short() {
		restarts = 100
	}
	for range restarts {
		s := replica{mustNew(t, newLists(), db), nil} // the lists are lost each time
		s.Start()
		check.Eventually(t, "ready", s.Ready)
		id, err := s.one(1, "alice")
		check.Must(t, err)
		got.add([]int64{id}, 1, "alice")
		stop(t, s.Service)
	}
	got.check(t, restarts)
	db.change(func(rows map[model.ListKey]model.AllocState) {
		if last := rows[alice].Last; last > 10*int64(restarts) {
			t.Errorf("%d indices are gone after %d restarts with an ID each", last, restarts)
		}
		for key, row := range rows {
			if key != alice && row.Last != 0 {
				t.Errorf("list %s, which nobody used, is at %d", key, row.Last)
			}
		}
	})
}

// A narrow list grows with demand, and stays a small share of what is left.
func TestANarrowListFollowsDemand(t *testing.T) {
	l, db := newLists(), newTable()
	db.provision(1, 1000, model.Limit{MaxID: 1 << 31, Policy: model.LimitReject})
	r := ready(t, l, db)
	got := newCollector()
	for range 2000 {
		id, err := r.one(1, "alice")
		check.Must(t, err)
		got.add([]int64{id}, 1, "alice")
	}
	got.check(t, 2000)
	longest := int64(0)
	for _, s := range db.segments() {
		longest = max(longest, s.Len())
	}
	if longest < 100 || longest > 140 || len(db.segments()) > 40 {
		t.Errorf("%d segments, the longest of %d indices", len(db.segments()), longest)
	}
	if held := r.Stats().Held; held > 1 {
		t.Errorf("%d IDs are held ahead", held)
	}
	ids, err := r.Next(context.Background(), 1, "a", 5000, nil)
	if err != nil || len(ids) != 5000 {
		t.Errorf("a batch of %d: %v", len(ids), err)
	}
}

func mustNew(t *testing.T, l *lists, db *table) *queue.Service {
	t.Helper()
	s, err := queue.New(options(l, db, &check.Reports{}))
	check.Must(t, err)
	return s
}
