package segment

import (
	"testing"
	"time"
)

func TestStep(t *testing.T) {
	for name, c := range map[string]struct {
		last, row, limit int64
		age              time.Duration
		want             int64
	}{
		"quick":                     {1000, 1000, 1_000_000, 15*time.Minute - 1, 2000},
		"steady":                    {1000, 1000, 1_000_000, 15 * time.Minute, 1000},
		"still steady":              {4000, 1000, 1_000_000, 30*time.Minute - 1, 4000},
		"idle":                      {4000, 1000, 1_000_000, 30 * time.Minute, 2000},
		"idle at the row's step":    {1500, 1000, 1_000_000, 24 * time.Hour, 1000},
		"quick at the bound":        {600_000, 1000, 1_000_000, 0, 1_000_000},
		"the bound is below it":     {600_000, 1000, 500_000, 0, 600_000},
		"the bound is below a row":  {1000, 1000, 10, 0, 1000},
		"the row is above the step": {1000, 5000, 1_000_000, 20 * time.Minute, 5000},
	} {
		now := time.Now()
		s := step{row: c.row, last: c.last, at: now.Add(-c.age)}
		if got := s.next(now, c.limit); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
