package idgen

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	leafEpoch = 1288834974657
	someday   = 1_800_000_000_000 // 2027, Unix ms
)

// hand is a clock that stands until it is set.
type hand struct{ wall, mono atomic.Int64 }

func (h *hand) now() (int64, time.Duration) { return h.wall.Load(), time.Duration(h.mono.Load()) }
func (h *hand) set(ms int64)                { h.wall.Store(ms * int64(time.Millisecond)) }

// leaf are the options of Leaf's snowflakes, with a clock.
func leaf(now Clock) Options {
	return Options{
		Layout:    Layout{Epoch: leafEpoch, WorkerBits: 10, SeqBits: 12}.InMillis(),
		Tolerance: 5 * time.Millisecond, CatchUp: 100 * time.Millisecond, Now: now,
	}
}

func mustNew(t testing.TB, o Options) *Generator {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// begin begins a term without an end.
func begin(g *Generator, worker int, after int64) {
	g.Begin(worker, after)
	g.Extend(math.MaxInt64, math.MaxInt64)
}

// granted is a generator with worker ID 7, all of time and a clock at someday.
func granted(t testing.TB, sequenceStart int) (*Generator, *hand) {
	t.Helper()
	h := &hand{}
	h.set(someday)
	o := leaf(h.now)
	o.SequenceStart = sequenceStart
	g := mustNew(t, o)
	begin(g, 7, 0)
	return g, h
}

func parts(id int64) (ms, worker, seq int64) { return id>>22 + leafEpoch, id >> 12 & 1023, id & 4095 }

// A new unit starts at a random sequence, low enough that what is asked for fits.
func TestSequenceStartsAtRandom(t *testing.T) {
	g, h := granted(t, 100)
	seen := map[int64]bool{}
	for i := range int64(2000) {
		h.set(someday + i)
		id, _, _, err := g.Take(1)
		if err != nil || id&4095 > 99 {
			t.Fatalf("sequence %d, %v", id&4095, err)
		}
		seen[id&4095] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different starts in 2000 milliseconds, want nearly 100", len(seen))
	}
	for i, n := range []int{math.MaxInt, 4000} {
		h.set(someday + 3000*int64(i+1))
		if first, got, _, err := g.Take(n); got != min(n, 4096) || first&4095 > int64(4096-got) || err != nil {
			t.Errorf("%d of %d from sequence %d, %v", got, n, first&4095, err)
		}
	}
}

// Every layout issues all IDs of its units, each once, with the parts in their places, up to its last one, and
// says when the next unit begins; and none of a worker ID that it has no room for.
func TestLayouts(t *testing.T) {
	for _, widths := range [][3]uint{
		{41, 10, 12}, {41, 5, 7}, {41, 8, 14}, {41, 1, 1}, {41, 10, 1}, {39, 1, 23}, {46, 16, 1},
	} {
		t.Run(fmt.Sprint(widths), func(t *testing.T) {
			h := &hand{}
			o := Options{
				Layout: Layout{Unit: time.Millisecond, Epoch: someday - 1000,
					TimeBits: widths[0], WorkerBits: widths[1], SeqBits: widths[2]},
				SequenceStart: 2, CatchUp: 100 * time.Millisecond, Now: h.now,
			}
			workers, sequences := 1<<widths[1], 1<<widths[2]
			for _, worker := range []int{0, workers - 1} {
				g, next, all := mustNew(t, o), int64(0), 0
				begin(g, worker, 0)
				for now := int64(someday); now < someday+5; now += 1 + now%3 { // some milliseconds late
					h.set(now)
					for n := 1; ; n = n*3 + 1 {
						first, got, wait, err := g.Take(n)
						if err != nil || got == 0 && wait != time.Millisecond {
							t.Fatal(wait, err)
						}
						if got == 0 {
							break
						}
						last := first + int64(got) - 1
						ms := last>>(widths[1]+widths[2]) + o.Epoch
						if first < next || first>>widths[2] != last>>widths[2] || ms > now || ms < someday ||
							last>>widths[2]&int64(workers-1) != int64(worker) {
							t.Fatalf("%d…%d after %d, of worker %d at %d", first, last, next, worker, now)
						}
						next, all = last+1, all+got
					}
				}
				if all < 4*sequences {
					t.Errorf("%d IDs, want %d at least", all, 4*sequences)
				}
			}
			g, end := mustNew(t, o), o.Epoch+1<<widths[0]
			if end > math.MaxInt64/int64(time.Millisecond) {
				return // no clock gets there
			}
			begin(g, workers-1, 0)
			h.set(end - 1)
			first, got, _, err := g.Take(math.MaxInt)
			if err != nil || uint64(first)+uint64(got) != 1<<(widths[0]+widths[1]+widths[2]) {
				t.Errorf("the last ID is %d, %v", first+int64(got)-1, err)
			}
			begin(g, workers-1, end-1)
			if _, got, _, _ := g.Take(1); got > 0 {
				t.Error("the last unit is issued again")
			}
			h.set(end)
			refuses(t, g, "past the end", ErrTimeExhausted, "ended at")
			for _, worker := range []int{-1, workers} {
				begin(g, worker, 0)
				refuses(t, g, "no such worker ID", ErrNoLease, "is not 0…")
			}
		})
	}
	for i, spoil := range []func(*Options){
		func(o *Options) { o.TimeBits = 0 }, func(o *Options) { o.WorkerBits = 0 }, func(o *Options) { o.SeqBits = 0 },
		func(o *Options) { o.TimeBits = 42 }, func(o *Options) { o.WorkerBits = math.MaxUint },
	} {
		o := leaf(nil)
		spoil(&o)
		if _, err := New(o); err == nil {
			t.Errorf("options %d are taken", i)
		}
	}
}

// refuses wants no ID, for a reason, in words.
func refuses(t *testing.T, g *Generator, when string, reason error, words string) {
	t.Helper()
	id, got, wait, err := g.Take(1)
	if !errors.Is(err, reason) || id != 0 || got != 0 || wait != 0 || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %d, %d, %v, %v; want %v, … %s", when, id, got, wait, err, reason, words)
	}
	if ready := g.Ready(); fmt.Sprint(ready) != fmt.Sprint(err) {
		t.Errorf("%s: ready says %v, not %v", when, ready, err)
	}
}

func TestClockRules(t *testing.T) {
	for _, c := range []struct {
		name string
		to   int64 // Unix ms, after an ID of someday
		wait time.Duration
		err  error
	}{
		{"same millisecond", someday, 0, nil},
		{"1 ms back", someday - 1, time.Millisecond, nil},
		{"5 ms back", someday - 5, 5 * time.Millisecond, nil},
		{"6 ms back", someday - 6, 0, ErrClockBack},
		{"before the epoch", leafEpoch - 1, 0, ErrTimeExhausted},
		{"last millisecond", leafEpoch + 1<<41 - 1, 0, nil},
		{"past 41 bits", leafEpoch + 1<<41, 0, ErrTimeExhausted},
		{"far past 41 bits", math.MaxInt64 / int64(time.Millisecond), 0, ErrTimeExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, h := granted(t, 0)
			before, _, _, _ := g.Take(1)
			h.set(c.to)
			id, got, wait, err := g.Take(1)
			if wait != c.wait || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Fatalf("wait %v, %v; want %v, %v", wait, err, c.wait, c.err)
			}
			issues := c.wait == 0 && c.err == nil
			if issues != (got == 1) || issues != (id > before) || !issues && id != 0 {
				t.Errorf("%d, %d after %d", id, got, before)
			}
		})
	}
	g, h := granted(t, 0)
	h.set(leafEpoch + 1<<41 - 1 - 60_000)
	if left := g.Remaining(); left != time.Minute {
		t.Errorf("%v are left, not a minute", left)
	}
}

func TestBounds(t *testing.T) {
	g, h := granted(t, 0)
	issues := func(when string, ms int64) {
		t.Helper()
		if err := g.Ready(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if id, got, _, err := g.Take(1); err != nil || got != 1 || id>>22+leafEpoch != ms {
			t.Errorf("%s: %d, %d, %v", when, id, got, err)
		}
	}
	g.Begin(3, someday+5000)
	refuses(t, g, "nothing reserved, and too early", ErrTooEarly, "5s from now")
	g.Extend(math.MaxInt64, math.MaxInt64)
	refuses(t, g, "before After", ErrTooEarly, "5s from now")
	h.set(someday + 5000)
	if id, got, wait, err := g.Take(1); id != 0 || got != 0 || wait != time.Millisecond || err != nil {
		t.Errorf("at After: %d, %d, %v, %v", id, got, wait, err)
	}
	h.set(someday + 5001)
	issues("past After", someday+5001)
	g.Begin(3, someday)
	h.set(someday + 5002)
	refuses(t, g, "nothing reserved", ErrNoLease, "not been reserved yet")
	g.Extend(someday+6000, time.Minute)
	h.set(someday + 6000)
	issues("last reserved millisecond", someday+6000)
	h.set(someday + 6001)
	refuses(t, g, "past the reservation", ErrNoLease, "reserved up to")
	g.Extend(someday+9000, time.Minute)
	issues("renewed", someday+6001)
	g.Extend(someday+6000, time.Minute)
	refuses(t, g, "taken back in the middle of a millisecond", ErrNoLease, "reserved up to")
	g.Extend(someday+9000, time.Minute)
	h.mono.Store(int64(time.Minute) - 1)
	issues("just trusted", someday+6001)
	h.mono.Store(int64(time.Minute))
	refuses(t, g, "trust ended, whatever the wall clock says", ErrNoLease, "not renewed in time")
	g.End(fmt.Errorf("%w: gone", ErrNoLease))
	refuses(t, g, "ended", ErrNoLease, "gone")
	g.Extend(math.MaxInt64, math.MaxInt64)
	refuses(t, g, "extended without a term", ErrNoLease, "gone")

	h.set(leafEpoch)
	g = mustNew(t, leaf(h.now))
	begin(g, 7, leafEpoch-1)
	issues("the first millisecond of the epoch", leafEpoch)
}

// A call that began under an old term repeats nothing of the new one, whose worker ID is the same.
func TestTermEnds(t *testing.T) {
	t.Run("and the next stays ahead of it", func(t *testing.T) {
		g, h := granted(t, 0)
		before, _, _, _ := g.Take(1)
		during := g.LastIssued()
		g.End(ErrNoLease)
		if during != someday || g.LastIssued() != someday {
			t.Fatalf("last issued %d and, after the term, %d, want %d", during, g.LastIssued(), someday)
		}
		h.set(someday - 4000)
		begin(g, 8, 0)
		refuses(t, g, "behind the last term", ErrTooEarly, "4s from now")
		h.set(someday + 1)
		if id, _, _, err := g.Take(1); err != nil || id <= before {
			t.Errorf("%d after %d, %v", id, before, err)
		}
	})
	for name, c := range map[string]struct {
		to      int64 // ms by which the clock has gone on since the first ID
		reading int   // of the clock that is interrupted
		got     int   // IDs that the call may have
	}{
		"while a call continues":   {0, 1, 0},
		"while a call begins":      {1, 1, 1},
		"while a call begins anew": {1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var g *Generator
			var nested int64
			h, left := &hand{}, 0
			g = mustNew(t, leaf(func() (int64, time.Duration) {
				if left--; left == 0 {
					g.End(ErrNoLease)
					begin(g, 7, g.LastIssued())
					nested, _, _, _ = g.Take(1)
				}
				return h.now()
			}))
			h.set(someday)
			begin(g, 7, 0)
			before, _, _, _ := g.Take(1)
			h.set(someday + c.to)
			left = c.reading
			id, got, _, err := g.Take(1)
			if err != nil || got != c.got || left > 0 || got > 0 && id <= max(before, nested) ||
				c.to > 0 && nested <= before {
				t.Errorf("the call under way got %d (%d, %v) after %d and, of the new term, %d",
					id, got, err, before, nested)
			}
		})
	}
	t.Run("by two at once", func(t *testing.T) {
		g, h := granted(t, 0)
		for now := int64(someday); now < someday+10_000; now++ {
			begin(g, 7, 0)
			h.set(now)
			if _, got, _, err := g.Take(1); got != 1 || err != nil {
				t.Fatal(got, err)
			}
			var ends sync.WaitGroup
			for range 2 {
				ends.Go(func() { g.End(ErrNoLease) })
			}
			if ends.Wait(); g.LastIssued() != now {
				t.Fatalf("the last ID is of %d, not %d", g.LastIssued(), now)
			}
		}
	})
	t.Run("again and again, while many take", func(t *testing.T) {
		g, h := granted(t, 100)
		const takers, rounds, enough = 4, 3000, 2000
		var callers sync.WaitGroup
		ids := make([][]int64, takers)
		var stop atomic.Bool
		var taken atomic.Int64
		for i := range takers {
			callers.Go(func() {
				for !stop.Load() {
					if first, got, _, err := g.Take(2); err == nil {
						taken.Add(int64(got))
						for j := range got {
							ids[i] = append(ids[i], first+int64(j))
						}
					}
				}
			})
		}
		deadline := time.Now().Add(20 * time.Second)
		for i := int64(0); i < rounds || taken.Load() < enough && time.Now().Before(deadline); i++ {
			h.set(someday + i/2)
			g.End(ErrNoLease)
			begin(g, 7, g.LastIssued())
		}
		stop.Store(true)
		callers.Wait()
		seen := map[int64]bool{}
		for _, list := range ids {
			for i, id := range list {
				if seen[id] || i > 0 && id <= list[i-1] {
					t.Fatalf("%d was issued before (%v), or is too low", id, seen[id])
				}
				seen[id] = true
			}
		}
		if len(seen) < enough {
			t.Errorf("only %d IDs", len(seen))
		}
	})
}

// No ID of a millisecond that was used up in time is lost to callers who slept too long for the next.
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
		if total != 111*4096 {
			t.Errorf("%d IDs of 111 ms, taken by %d", total, n)
		}
	}
}

// TestTimeOfIDs takes what chance wants for ten seconds and holds each ID against the clock and against
// when a millisecond was used up in time.
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
				if err != nil {
					t.Fatal(err)
				}
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

// The clock is the machine's, however long ago it was read.
func TestSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, began := SystemClock(), time.Now()
		for _, step := range []time.Duration{
			0, 1, time.Microsecond, 300 * time.Microsecond, time.Millisecond, time.Second, 1, time.Hour,
		} {
			time.Sleep(step)
			wall, mono := clock()
			if now := time.Now(); wall != now.UnixNano() || mono != now.Sub(began) {
				t.Errorf("after %v: wall %d, monotonic %v; the machine says %d and %v",
					step, wall, mono, now.UnixNano(), now.Sub(began))
			}
		}
	})
}

// BenchmarkTake is of a layout that has more IDs than one and two goroutines take and, at the cap, how much is had of
// the 4096 a millisecond of Leaf's. scripts/bench has its goals.
func BenchmarkTake(b *testing.B) {
	wide := leaf(nil)
	wide.TimeBits, wide.WorkerBits, wide.SeqBits = 39, 4, 20
	for name, o := range map[string]Options{"one": wide, "cap": leaf(nil), "parallel": wide} {
		b.Run(name, func(b *testing.B) {
			g := mustNew(b, o)
			begin(g, 7, 0)
			take := func() {
				for got := 0; got == 0; {
					var wait time.Duration
					var err error
					if _, got, wait, err = g.Take(1); err != nil {
						panic(err)
					}
					if got == 0 {
						time.Sleep(wait)
					}
				}
			}
			if name == "parallel" {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						take()
					}
				})
				return
			}
			for b.Loop() {
				take()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/4096e3, "of-cap")
		})
	}
}
