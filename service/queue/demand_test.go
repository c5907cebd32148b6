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
		"warm keeps":          {append(repeat(time.Millisecond, 6), repeat(50*time.Millisecond, 20)...), 16},
		"cool halves":         {append(repeat(time.Millisecond, 6), repeat(200*time.Millisecond, 2)...), 4},
		"cold forgets":        {append(repeat(time.Millisecond, 6), time.Second), 0},
		"and starts again":    {append(repeat(time.Millisecond, 6), time.Second, time.Millisecond), 1},
		"five a second, long": {repeat(200*time.Millisecond, 100), 0},
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

func repeat(d time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = d
	}
	return out
}
