package segment

import (
	"math"
	"testing"
	"time"

	"shardid/scripts/check"
)

func TestRate(t *testing.T) {
	now := time.Now()
	r, issued := rate{began: now, last: now}, int64(0)
	for _, c := range []struct {
		perSecond, seconds int
		want               float64
	}{{0, 10, 0}, {100, 600, 100}, {10, 300, 10}} {
		for range c.seconds {
			now, issued = now.Add(time.Second), issued+int64(c.perSecond)
			r.observe(now, issued)
		}
		if math.Abs(r.perSecond-c.want) > 0.1 {
			t.Errorf("%v a second, want %v", r.perSecond, c.want)
		}
	}
	for _, c := range []struct {
		rate float64
		held int64
		want time.Duration
	}{
		{0, 0, 0}, {0, 1000, maxRunway}, {100, 0, 0}, {100, 1000, 10 * time.Second}, {1e-9, 1000, maxRunway},
	} {
		r := rate{perSecond: c.rate}
		check.Equal(t, r.runway(c.held), c.want, c.held, "at", c.rate)
	}
}
