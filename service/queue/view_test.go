package queue_test

import (
	"testing"

	"shardid/model"
	"shardid/service/queue"
)

func TestViewsShowDepths(t *testing.T) {
	l, db := newLists(), newTable(1, 7)
	r := ready(t, l, db, func(o *queue.Options) { o.PrefetchMax = 1 })
	if _, err := r.one(7, "alice"); err != nil { // shard 0, step 100
		t.Fatal(err)
	}
	views := r.Views(t.Context())
	if len(views) != 2 || views[0].App != 1 || views[1].App != 7 || views[1].Step != 100 {
		t.Fatalf("views: %+v", views)
	}
	if got := views[1].Depths; got[0] != 99 || got[1] < 0 {
		t.Errorf("depths of app 7: %d, %d, want 99 and one that is known", got[0], got[1])
	}
	l.set(func(l *lists) { l.err = errAway })
	if got := r.Views(t.Context())[1].Depths; got != [model.Shards]int64(unknown()) {
		t.Errorf("with the store away: %v", got)
	}
}

func unknown() []int64 {
	out := make([]int64, model.Shards)
	for i := range out {
		out[i] = -1
	}
	return out
}
