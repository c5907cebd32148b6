package segment

import (
	"math"
	"slices"
	"testing"
	"time"

	"shardid/scripts/check"
)

func TestDemand(t *testing.T) {
	second := func(n int64, seconds int) []int64 { return slices.Repeat([]int64{n}, seconds) } // n IDs in each of them
	for name, c := range map[string]struct {
		seconds []int64 // IDs issued in each
		rate    float64
		target  int64
	}{
		"nothing":                   {second(0, 10), 0, 0},
		"one second":                {second(100, 1), 100, 200},
		"doubles":                   {second(100, 4), 100, 1600},
		"up to the runway":          {second(100, 60), 100, 60_000},
		"at any rate":               {second(1_000_000, 10), 1_000_000, 600_000_000},
		"a burst":                   {slices.Concat(second(0, 600), second(10_000, 1)), 328, 20_000},
		"a burst is forgotten":      {slices.Concat(second(10_000, 1), second(0, 600)), 0, 0},
		"falls with the rate":       {slices.Concat(second(1000, 120), second(10, 300)), 10, 6000},
		"one a minute, as it comes": {slices.Concat(second(0, 59), second(1, 1)), 0.04, 2},
	} {
		now := time.Now()
		d := demand{last: now}
		issued := int64(0)
		for _, n := range c.seconds {
			now = now.Add(time.Second)
			issued += n
			d.observe(now, issued, 10*time.Minute)
		}
		if math.Abs(d.perSecond()-c.rate) > 0.01*c.rate+0.01 || math.Abs(float64(d.target-c.target)) > 0.01*float64(c.target) {
			t.Errorf("%s: rate %v and target %d, want %v and %d", name, d.perSecond(), d.target, c.rate, c.target)
		}
	}
}

func TestRunway(t *testing.T) {
	for _, c := range []struct {
		rate float64
		held int64
		want time.Duration
	}{
		{0, 0, 0}, {0, 1000, maxRunway}, {100, 0, 0}, {100, 1000, 10 * time.Second}, {1e-9, 1000, maxRunway},
	} {
		d := demand{rate: c.rate, weight: 1}
		check.Equal(t, d.runway(c.held), c.want, c.held, "at", c.rate)
	}
}
