package segment_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

// Two processes, many goroutines, segments so short that nearly every call meets
// the end of one.
func TestNeverTwiceUnderStress(t *testing.T) {
	for _, step := range []int64{1, 7, 64} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			db := newTable(step, "orders")
			short := func(o *segment.Options) { o.MaxStep = 50; o.Timeout = 20 * time.Second }
			replicas := []replica{ready(t, db, short), ready(t, db, short)}
			got := make([][]int64, 16)
			want := 0
			var wg sync.WaitGroup
			for i := range got {
				r, calls := replicas[i%2], 3000
				for j := range calls {
					want += 1 + stressCount(i, j)
				}
				wg.Go(func() { got[i] = stress(t, r, i, calls) })
			}
			wg.Wait()
			checkDistinct(t, got, want)
			issued := int64(0)
			for _, r := range replicas {
				s := r.Stats()
				issued += s.Issued
				check.Equal(t, s.Refused+s.Repeated+s.Lifts, 0, "stats:", s)
			}
			if issued != int64(want) {
				t.Errorf("%d IDs are counted, want %d", issued, want)
			}
		})
	}
}

// stressCount is the size of a caller's batch.
func stressCount(caller, call int) int { return (caller + call) % 13 }

// stress takes IDs, one by the handle and a batch by name in turn.
func stress(t *testing.T, r replica, caller, calls int) []int64 {
	orders, err := r.Tag("orders")
	if err != nil {
		t.Error(err)
		return nil
	}
	var ids []int64
	for j := range calls {
		id, err := orders.One(t.Context())
		if err != nil {
			t.Error(err)
			return ids
		}
		ids = append(ids, id)
		if n := stressCount(caller, j); n > 0 {
			if ids, err = r.Next(t.Context(), "orders", n, ids); err != nil {
				t.Error(err)
				return ids
			}
		}
	}
	return ids
}

// Callers race with a tag that is removed and added again, below what was issued.
func TestNeverTwiceWhileATagComesAndGoes(t *testing.T) {
	db := newTable(50, "orders")
	r := ready(t, db, func(o *segment.Options) { o.Reload = time.Millisecond })
	orders, err := r.Tag("orders")
	check.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := make([][]int64, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			for ctx.Err() == nil {
				if len(got[i]) > 100_000 {
					time.Sleep(time.Millisecond) // enough, unless others wait for more
				}
				ids, err := orders.Next(ctx, 1+len(got[i])%5, got[i])
				if err != nil && ctx.Err() == nil && !errors.Is(err, model.ErrUnknownTag) {
					t.Error(err)
				}
				got[i] = ids
			}
		})
	}
	seen := func() bool { s := r.Stats(); return s.Wasted > 0 && s.Lifts > 0 }
	for i := 0; i < 100 || !seen() && ctx.Err() == nil; i++ {
		db.set(func(db *table) { delete(db.rows, "orders") })
		time.Sleep(3 * time.Millisecond)
		db.put("orders", 1, 50)
		time.Sleep(3 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	want := 0
	for _, ids := range got {
		want += len(ids)
	}
	if want < 1000 {
		t.Fatalf("%d IDs only", want)
	}
	checkDistinct(t, got, want)
	s := r.Stats()
	if s.Issued != int64(want) || s.Repeated != 0 || s.Wasted == 0 || s.Lifts == 0 {
		t.Errorf("%d IDs, stats: %+v", want, s)
	}
}
