package segment

import (
	"math"
	"testing"
	"time"

	"shardid/scripts/check"
)

// The rate that is shown follows what is used, and what is held lasts a year at most.
func TestRate(t *testing.T) {
	now := time.Now()
	r, issued := rate{began: now, last: now}, int64(0)
	for _, c := range []struct {
		perSecond, seconds int
		want               float64
		lasts              time.Duration // of 1000 IDs
	}{{0, 10, 0, maxRunway}, {100, 600, 100, 10 * time.Second}, {10, 300, 10, 100 * time.Second}} {
		for range c.seconds {
			now, issued = now.Add(time.Second), issued+int64(c.perSecond)
			r.observe(now, issued)
		}
		if math.Abs(r.perSecond-c.want) > 0.1 {
			t.Errorf("%v a second, want %v", r.perSecond, c.want)
		}
		check.Equal(t, r.runway(1000).Round(time.Second), c.lasts, "runway at", c.perSecond)
		check.Equal(t, r.runway(0), 0, "runway of nothing")
	}
}
