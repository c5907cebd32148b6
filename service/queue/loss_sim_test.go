package queue_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
	"shardid/service/queue"
)

// COMMITs or pushes get no answer.
func TestSimulationOfLosses(t *testing.T) {
	check.Deep(t)
	simtest.Losses(t, 1000, func(t *testing.T, rng *rand.Rand, careless bool) simtest.Losing {
		key, l, db := aliceKey(), newLists(), newTable()
		db.careless = careless
		limit := []int64{100, 1000, 20_000, 131_071, 20_000_000, model.MaxIndex}[rng.IntN(6)]
		step := []int64{1, 100, 1000, 100_000}[rng.IntN(4)]
		db.rows[key] = model.AllocState{Key: key, Step: step, Limit: model.Limit{MaxID: key.Compose(limit), Policy: model.LimitReject}}
		r := ready(t, l, db)
		check.Must(t, check.Err(r.one(1, "alice")))
		return simtest.Losing{
			// What a narrow list asks for at once, what its callers wait for, and a try for
			// each doubling of a pause.
			Few:   8 + simtest.LosingCallers*simtest.LosingBatch + 20,
			Soon:  3 * time.Second, // at once for a caller, without one with the next look at what fails
			Left:  func() int64 { return limit - db.row(key).Last },
			Take:  func(ctx context.Context, n int) error { return check.Err(r.Next(ctx, 1, "alice", n, nil)) },
			Wrong: func() error { return r.reports.Of(queue.ConditionRefill) },
			Break: func(fails func(int64) bool) {
				commits, arrives := rng.IntN(2) == 0, rng.IntN(4) == 0
				db.change(func(map[model.ListKey]model.AllocState) {
					if db.unanswered = nil; fails != nil && commits {
						db.unanswered = func(s model.Segment) bool { return fails(s.Len()) }
					}
				})
				l.set(func(l *lists) {
					if l.failing = nil; fails != nil && !commits {
						l.failing = func(s model.Segment) (bool, bool) { return fails(s.Len()), arrives }
					}
				})
			},
		}
	})
}
