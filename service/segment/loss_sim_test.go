package segment_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
	"shardid/service/segment"
)

// COMMITs get no answer.
func TestSimulationOfLosses(t *testing.T) {
	check.Deep(t)
	simtest.Losses(t, 2000, func(t *testing.T, rng *rand.Rand, careless bool) simtest.Losing {
		width := []int{3, 4, 7}[rng.IntN(3)]
		n := model.Numbering{Pattern: fmt.Sprintf("{yyyyMMdd}{seq:%d}", width), Reset: model.ResetDay, Zone: "UTC",
			Overflow: []model.Overflow{model.OverflowRefuse, model.OverflowRefuse, model.OverflowWiden}[rng.IntN(3)]}
		numbers, err := n.Numbers()
		check.Must(t, err)
		db, r := numbered(t, []int64{1, 100, 1000}[rng.IntN(3)], n)
		db.set(func(db *table) { db.careless = careless })
		r.text(t, fmt.Sprintf("20000101%0*d", width, 1))
		return simtest.Losing{
			Few:   20, // a try for each doubling of a pause
			Soon:  2 * time.Second,
			Left:  func() int64 { return numbers.Left(db.maxID("orders") - 1) },
			Take:  func(ctx context.Context, n int) error { return check.Err(r.Numbers(ctx, "orders", n, nil)) },
			Wrong: func() error { return r.reports.Of(segment.ConditionLoad) },
			Break: func(fails func(int64) bool) { db.set(func(db *table) { db.unanswered = fails }) },
		}
	})
}
