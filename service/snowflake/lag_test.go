package snowflake_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"shardid/scripts/check"
)

func TestSaturatedGeneratorCatchesUp(t *testing.T) {
	for _, n := range []int{1, 500, 512, 4096, 10_000} {
		g, h := granted(t, 100)
		take := func(enough int) (total int) {
			for got := 1; got > 0 && total < enough; total += got {
				_, got, _, _ = g.Take(n)
			}
			return total
		}
		if take(math.MaxInt) == 0 {
			t.Fatal("no IDs")
		}
		total := 0
		for _, step := range []struct {
			to     int64 // the callers overslept
			enough int   // or were stopped before they had taken all
		}{{8, math.MaxInt}, {9, 1000}, {11, 5000}, {11, math.MaxInt}, {111, 300}, {111, math.MaxInt}} {
			h.set(someday + step.to)
			total += take(step.enough)
		}
		check.Equal(t, total, 111*4096, "IDs of 111 ms, taken by", n)
	}
}

func TestLagEnds(t *testing.T) {
	for name, c := range map[string]struct {
		each int64 // ms between two IDs
		last int64 // ms after which there is no lag
	}{
		"one a ms":     {1, 100},
		"one in 30 ms": {30, 100},
		"nearly idle":  {100, 100},
		"idle":         {101, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, h := granted(t, 100)
			if _, got, _, err := g.Take(10_000); got == 0 || err != nil { // saturated, at someday
				t.Fatal(got, err)
			}
			starts := map[int64]bool{}
			for at := c.each; at < 2000; at += c.each {
				h.set(someday + at)
				id, _, _, err := g.Take(1)
				ms, _, seq := parts(id)
				if err != nil || ms > someday+at || at > c.last && ms != someday+at {
					t.Fatalf("%d ms after: the ID says %d, %v", at, ms-someday, err)
				}
				if at > c.last {
					starts[seq] = true
				}
			}
			if c.each == 1 && len(starts) < 90 {
				t.Errorf("%d different sequences after the lag", len(starts))
			}
		})
	}
}

// TestTimeOfIDs takes what chance wants for ten seconds and holds each ID against
// the clock and against when a millisecond was used up in time.
func TestTimeOfIDs(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		g, h := granted(t, int(seed*10))
		last, usedUp, lagged := int64(0), int64(math.MinInt32), 0
		for now := int64(0); now < 10_000; now += r.Int64N(1 + 1<<r.IntN(9)) {
			h.set(someday + now)
			for range 1 << r.IntN(6) {
				n := 1 + r.IntN(1<<r.IntN(13))
				first, got, _, err := g.Take(n)
				check.Must(t, err)
				if got == 0 {
					break
				}
				ms, worker, seq := parts(first)
				lag := someday + now - ms
				if first <= last || got > n || seq+int64(got) > 4096 || worker != 7 {
					t.Fatalf("seed %d: %d (sequence %d), %d of %d after %d", seed, first, seq, got, n, last)
				}
				if lag < 0 || lag > 0 && now-usedUp > 100 {
					t.Fatalf("seed %d: %d ms behind, %d ms after one was used up in time", seed, lag, now-usedUp)
				}
				if last = first + int64(got) - 1; lag == 0 && seq+int64(got) == 4096 {
					usedUp = now
				}
				if lag > 0 {
					lagged++
				}
			}
		}
		if lagged < 100 {
			t.Errorf("seed %d: only %d calls met a lag", seed, lagged)
		}
	}
}
