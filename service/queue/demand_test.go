package queue

import (
	"testing"
	"time"
)

func TestDemand(t *testing.T) {
	for name, c := range map[string]struct {
		every []time.Duration // intervals between pops; the first one is cold
		want  int
	}{
		"the first pop":       {[]time.Duration{time.Hour}, 0},
		"one a second":        {repeat(time.Second, 100), 0},
		"hot doubles":         {repeat(time.Millisecond, 6), 16},
		"up to the bound":     {repeat(time.Millisecond, 50), 999},
		"warm keeps":          {append(repeat(time.Millisecond, 6), repeat(150*time.Millisecond, 20)...), 16},
		"cool halves":         {append(repeat(time.Millisecond, 6), repeat(400*time.Millisecond, 2)...), 4},
		"cold forgets":        {append(repeat(time.Millisecond, 6), time.Second), 0},
		"and starts again":    {append(repeat(time.Millisecond, 6), time.Second, time.Millisecond), 1},
		"five a second, long": {repeat(200*time.Millisecond, 100), 0},
		"twenty a second":     {repeat(50*time.Millisecond, 6), 16},
	} {
		var d demand
		now := time.Now()
		for _, interval := range c.every {
			now = now.Add(interval)
			d.observe(now, 999)
		}
		if d.ahead != c.want {
			t.Errorf("%s: %d ahead, want %d", name, d.ahead, c.want)
		}
	}
}

// A list that a caller at a time takes from is popped when half of what is held
// ahead is left.
func TestDemandSettles(t *testing.T) {
	for _, rate := range []int{780, 2000, 20_000} { // IDs a second
		var d demand
		now := time.Now()
		for range 100 {
			took := max(1, d.ahead/2)
			now = now.Add(time.Duration(took) * time.Second / time.Duration(rate))
			d.observe(now, 9999)
		}
		if d.ahead/2 < 50 || d.ahead > rate/2 {
			t.Errorf("%d ahead at %d a second, want a pop for at least 50 IDs and at most half a second's", d.ahead, rate)
		}
	}
}

func repeat(d time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = d
	}
	return out
}
