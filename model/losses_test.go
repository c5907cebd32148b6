package model_test

import (
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// After a loss nothing is asked for until that arrives, then for one more than has arrived
// since; as many as are wanted end it.
func TestLossesBoundTheNextSegment(t *testing.T) {
	var l model.Losses
	const wanted = 10
	arrive := func(want int64) {
		t.Helper()
		n := l.Care.Bound(wanted)
		check.Equal(t, n, want, "asked for")
		l.Arrived(n)
	}
	arrive(wanted)
	l.Lost(1 << 20)
	for _, want := range []int64{0, 1, 2, 4, 8, wanted} {
		arrive(want)
	}
	check.Equal(t, l, model.Losses{}, "losses")
	l.Lost(1 << 20)
	arrive(0)
	arrive(1)
	l.Lost(1 << 20)
	arrive(0)
	arrive(1)
}

// Pauses double up to 1.25 s, and on after a two-hundredth of what is left. An arrival
// pays for a loss. Empty segments cost nothing.
func TestLossesPause(t *testing.T) {
	for name, c := range map[string]struct {
		left, losses int64
		longest      int
	}{"wide": {1 << 40, 10_000, 9_998}, "narrow": {20_000, 110, 98}, "very narrow": {10, 20, 1}} {
		var l model.Losses
		pause, capped := time.Duration(0), 0
		for range c.losses {
			before := pause
			pause = l.Lost(c.left)
			check.Equal(t, l.Lost(c.left), 0, "the pause after an empty segment")
			if pause == 1250*time.Millisecond {
				capped++
			} else if pause < 2*before || pause < 300*time.Millisecond {
				t.Fatalf("%s: %v after %v", name, pause, before)
			}
			l.Arrived(0)
		}
		check.Equal(t, capped, c.longest, name, "longest pauses")
		l.Arrived(1)
		check.Equal(t, l.Lost(c.left), pause, "pause after an arrival and a loss")
		l.Arrived(0)
		for range c.losses {
			l.Arrived(1)
		}
		check.Equal(t, l.Lost(c.left), 312500*time.Microsecond, "pause after as many arrivals as losses")
	}
}
