package queue

import (
	"slices"
	"testing"
	"time"

	"shardid/scripts/check"

	"github.com/robfig/cron/v3"
)

func TestDemand(t *testing.T) {
	for name, c := range map[string]struct {
		every []time.Duration // intervals between pops; the first one is cold
		want  int
	}{
		"the first pop":       {[]time.Duration{time.Hour}, 0},
		"one a second":        {repeat(time.Second, 100), 0},
		"hot grows eightfold": {repeat(time.Millisecond, 3), 63},
		"up to the bound":     {repeat(time.Millisecond, 50), 999},
		"in time keeps":       {append(repeat(time.Millisecond, 3), repeat(250*time.Millisecond, 20)...), 63},
		"early grows":         {append(repeat(time.Millisecond, 3), 125*time.Millisecond), 127},
		"late shrinks":        {append(repeat(time.Millisecond, 3), repeat(400*time.Millisecond, 2)...), 24},
		"cold forgets":        {append(repeat(time.Millisecond, 3), 501*time.Millisecond), 0},
		"and starts again":    {append(repeat(time.Millisecond, 3), time.Second, time.Millisecond), 7},
		"five a second, long": {repeat(200*time.Millisecond, 100), 0},
		"at the same time":    {[]time.Duration{time.Hour, 0}, 7},
	} {
		var d demand
		now := time.Now()
		for _, interval := range c.every {
			now = now.Add(interval)
			d.observe(now, 999)
		}
		check.Equal(t, d.ahead, c.want, name, "ahead")
	}
}

// A list that a caller at a time takes from is popped when a quarter of what is held
// ahead is left.
func TestDemandSettles(t *testing.T) {
	for _, rate := range []int{500, 2000, 20_000} { // IDs a second
		var d demand
		now := time.Now()
		for range 100 {
			took := max(1, d.ahead-d.ahead/fetchBelow)
			now = now.Add(time.Duration(took) * time.Second / time.Duration(rate))
			d.observe(now, 9999)
		}
		if d.ahead-d.ahead/fetchBelow < 100 || d.ahead > rate/3 {
			t.Errorf("%d ahead at %d a second, want a pop for at least 100 IDs and at most a third of a second's", d.ahead, rate)
		}
	}
}

func repeat(d time.Duration, n int) []time.Duration { return slices.Repeat([]time.Duration{d}, n) }

// Sweeps spread over a twentieth of their period, and over five seconds at most.
func TestSpread(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for spec, want := range map[string]time.Duration{
		"0 */2 * * * *": 5 * time.Second, "0 0 * * * *": maxSpread, "* * * * * *": 50 * time.Millisecond, "*/10 * * * * *": 500 * time.Millisecond,
		"@every 1m": 3 * time.Second,
	} {
		when, err := cron.NewParser(cronFields).Parse(spec)
		check.Must(t, err)
		check.Equal(t, spread(when, now), want, spec)
	}
}
