package segment_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
)

// Every load is timed, a failed one too, and callers that got none for want of a
// segment are counted apart from those who asked for what there is not.
func TestStatsOfLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(100, "a")
		db.put("full", math.MaxInt64, 100)
		db.set(func(t *table) { t.delay = 30 * time.Millisecond })
		r := ready(t, db)
		if _, err := r.Next(context.Background(), "a", 1, nil); err != nil {
			t.Fatal(err)
		}
		if s := r.Stats(); s.Loads != 1 || s.LoadTimes.Count() != 1 || s.LoadTimes.Sum < 30*time.Millisecond || s.Starved != 0 {
			t.Errorf("%+v", s)
		}
		if _, err := r.Next(context.Background(), "full", 1, nil); !errors.Is(err, model.ErrLimitReached) {
			t.Errorf("of a tag that is used up: %v", err)
		}
		db.fail(errAway)
		if _, err := r.Next(context.Background(), "a", 5000, nil); !errors.Is(err, model.ErrSegmentEmpty) {
			t.Errorf("with the database away: %v", err)
		}
		if s := r.Stats(); s.Starved != 1 || s.FailedLoads == 0 || s.LoadTimes.Count() != s.Loads {
			t.Errorf("%+v", s)
		}
	})
}
