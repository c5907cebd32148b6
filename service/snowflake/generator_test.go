package snowflake_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/snowflake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const epoch = 1288834974657 // Leaf's

// hand is a clock that stands until it is set.
type hand struct{ wall, mono atomic.Int64 }

func (h *hand) now() (int64, time.Duration) { return h.wall.Load(), time.Duration(h.mono.Load()) }
func (h *hand) set(ms int64)                { h.wall.Store(ms * int64(time.Millisecond)) }

const someday = 1_800_000_000_000 // 2027, Unix ms

// granted is a generator with worker ID 7, all of time and a clock at someday.
func granted(t testing.TB, sequenceStart int) (*snowflake.Generator, *hand) {
	t.Helper()
	h := &hand{}
	h.set(someday)
	g, err := snowflake.New(snowflake.Options{EpochMs: epoch, SequenceStart: sequenceStart, Tolerance: 5 * time.Millisecond, Now: h.now})
	check.Must(t, err)
	begin(g, 7, 0)
	return g, h
}

// begin begins a term without an end.
func begin(g *snowflake.Generator, worker int, after int64) {
	g.Begin(worker, after)
	g.Extend(math.MaxInt64, math.MaxInt64)
}

func parts(id int64) (ms, worker, seq int64) {
	return id>>22 + epoch, id >> 12 & 1023, id & 4095
}

func TestTakeIsExactAtTheCap(t *testing.T) {
	g, h := granted(t, 0)
	for i := range int64(4096) {
		id, got, _, err := g.Take(1)
		if ms, worker, seq := parts(id); err != nil || got != 1 || ms != someday || worker != 7 || seq != i {
			t.Fatalf("ID %d of the millisecond: %d (%d ms, worker %d, sequence %d), %d, %v", i, id, ms, worker, seq, got, err)
		}
	}
	if _, got, wait, err := g.Take(1); got != 0 || err != nil || wait != time.Millisecond {
		t.Fatalf("the 4097th: got %d, wait %v, %v", got, wait, err)
	}
	h.set(someday + 1)
	if id, _, _, _ := g.Take(1); id>>12 != (someday+1-epoch)<<10|7 || id&4095 != 0 {
		t.Errorf("after a full millisecond the next begins at sequence 0, not %d", id&4095)
	}
}

func TestBatchTakesAMillisecondInOneStep(t *testing.T) {
	for _, start := range []int{0, 100, 4096} {
		g, h := granted(t, start)
		if first, got, _, err := g.Take(10_000); got != 4096 || first&4095 != 0 || err != nil {
			t.Errorf("start %d: first sequence %d, got %d, %v", start, first&4095, got, err)
		}
		h.set(someday + 50)
		if first, got, _, err := g.Take(4000); got != 4000 || first&4095 > 96 || err != nil {
			t.Errorf("start %d: 4000 from sequence %d, got %d, %v", start, first&4095, got, err)
		}
	}
}

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
}

// TestOtherWidths: every layout issues all IDs of its milliseconds, each once, with the
// parts in their places, up to its last one; and none of a worker ID it has no room for.
func TestOtherWidths(t *testing.T) {
	for _, widths := range [][2]uint{{10, 12}, {5, 7}, {8, 14}, {1, 1}, {10, 1}} {
		layout := model.SnowflakeLayout{EpochMs: epoch, WorkerBits: widths[0], SeqBits: widths[1]}
		h := &hand{}
		newGenerator := func() *snowflake.Generator {
			g, err := snowflake.New(snowflake.Options{
				EpochMs: epoch, WorkerBits: widths[0], SeqBits: widths[1], SequenceStart: 2, Now: h.now,
			})
			check.Must(t, err)
			return g
		}
		decoder := model.Decoder{Snowflake: layout}
		seen := map[int64]bool{}
		for _, worker := range []int{0, layout.Workers() - 1} {
			g := newGenerator()
			begin(g, worker, 0)
			for now := int64(someday); now < someday+20; now += 1 + now%3 { // some milliseconds late
				h.set(now)
				for n := 1; ; n = n*3 + 1 {
					first, got, _, err := g.Take(n)
					check.Must(t, err)
					if got == 0 {
						break
					}
					for id := first; id < first+int64(got); id++ {
						parts, err := decoder.Decode(model.KindSnowflake, id)
						check.Must(t, err)
						ms, _ := parts[0].Value.(int64)
						if seen[id] || parts[2].Value != int64(worker) || ms > now || ms < someday {
							t.Fatalf("%v: %d twice (%v), or %+v at %d", widths, id, seen[id], parts, now)
						}
						seen[id] = true
					}
				}
			}
			if least := 19 * layout.Sequences(); len(seen) < least { // the first begins at random
				t.Errorf("%v: %d IDs, want %d at least", widths, len(seen), least)
			}
			clear(seen)
		}
		g := newGenerator()
		h.set(layout.MaxMs())
		begin(g, layout.Workers()-1, 0)
		first, got, _, err := g.Take(math.MaxInt)
		check.Must(t, err)
		check.Equal(t, first+int64(got), int64(1)<<(41+widths[0]+widths[1]), widths, "the ID after the last one")
		h.set(layout.MaxMs() + 1)
		check.Is(t, check.Err(g.Take(1)), model.ErrTimeExhausted, widths)
		for _, worker := range []int{-1, layout.Workers()} {
			begin(g, worker, 0)
			check.Is(t, check.Err(g.Take(1)), model.ErrNoLease, widths, "worker", worker)
		}
	}
	for _, widths := range [][2]uint{{0, 12}, {10, 0}, {11, 11}, {7, 15}, {9, 14}, {math.MaxUint, 1}} {
		check.Is(t, check.Err(snowflake.New(snowflake.Options{WorkerBits: widths[0], SeqBits: widths[1]})), model.ErrInvalidArgument, widths)
	}
}

func TestAsMuchAsOneLikes(t *testing.T) {
	g, _ := granted(t, 0)
	for _, c := range []struct{ n, got int }{{1, 1}, {math.MaxInt, 4095}, {math.MaxInt, 0}} {
		if _, got, _, err := g.Take(c.n); got != c.got || err != nil {
			t.Errorf("%d of %d, %v; want %d", got, c.n, err, c.got)
		}
	}
}

func TestFirstMillisecondOfTheEpoch(t *testing.T) {
	g, h := granted(t, 0)
	h.set(epoch)
	begin(g, 7, epoch)
	if id, got, wait, err := g.Take(1); got != 0 || wait != time.Millisecond || err != nil {
		t.Errorf("an earlier holder may have used it: %d, %d, wait %v, %v", id, got, wait, err)
	}
	begin(g, 7, epoch-1)
	if id, got, _, err := g.Take(1); id != 7<<12 || got != 1 || err != nil {
		t.Errorf("nobody used it: %d, %d, %v", id, got, err)
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
		{"6 ms back", someday - 6, 0, model.ErrClockBack},
		{"an hour back", someday - 3_600_000, 0, model.ErrClockBack},
		{"before the epoch", epoch - 1, 0, model.ErrTimeExhausted},
		{"last millisecond", epoch + 1<<41 - 1, 0, nil},
		{"past 41 bits", epoch + 1<<41, 0, model.ErrTimeExhausted},
		{"far past 41 bits", math.MaxInt64 / int64(time.Millisecond), 0, model.ErrTimeExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, h := granted(t, 0)
			before, _, _, err := g.Take(1)
			check.Must(t, err)
			h.set(c.to)
			id, got, wait, err := g.Take(1)
			if wait != c.wait || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Fatalf("wait %v, %v; want %v, %v", wait, err, c.wait, c.err)
			}
			if got > 0 && id <= before {
				t.Errorf("%d after %d", id, before)
			}
			if (err != nil || wait > 0) && (id != 0 || got != 0) {
				t.Errorf("an ID travels with a refusal: %d, %d", id, got)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	g, h := granted(t, 0)
	refused := func(what string, want error) {
		t.Helper()
		if id, got, _, err := g.Take(1); !errors.Is(err, want) || id != 0 || got != 0 {
			t.Errorf("%s: %d, %d, %v; want %v", what, id, got, err, want)
		}
	}
	issued := func(what string) {
		t.Helper()
		if id, got, _, err := g.Take(1); err != nil || got != 1 || id <= 0 {
			t.Errorf("%s: %d, %d, %v", what, id, got, err)
		}
	}
	g.Begin(3, someday+5000)
	refused("nothing reserved", model.ErrTooEarly)
	g.Extend(math.MaxInt64, math.MaxInt64)
	refused("before After", model.ErrTooEarly)
	h.set(someday + 5050)
	if id, _, _, err := g.Take(1); err != nil || id>>22+epoch != someday+5050 {
		t.Errorf("past After the ID says %d, %v", id>>22+epoch, err)
	}

	g.Extend(someday+6000, time.Minute)
	h.set(someday + 6000)
	issued("last reserved millisecond")
	h.set(someday + 6001)
	refused("past the reservation", model.ErrNoLease)
	g.Extend(someday+9000, time.Minute)
	issued("renewed")
	g.Extend(someday+6000, time.Minute)
	refused("taken back in the middle of a millisecond", model.ErrNoLease)
	g.Extend(someday+9000, time.Minute)
	h.mono.Store(int64(time.Minute) - 1)
	issued("just trusted")
	h.mono.Store(int64(time.Minute))
	refused("trust ended, whatever the wall clock says", model.ErrNoLease)

	g.End(fmt.Errorf("%w: gone", model.ErrNoLease))
	refused("ended", model.ErrNoLease)
	g.Extend(math.MaxInt64, math.MaxInt64)
	refused("extended without a term", model.ErrNoLease)
}

func TestNewTermStaysAheadOfTheOld(t *testing.T) {
	g, h := granted(t, 0)
	before, _, _, _ := g.Take(1)
	during := g.LastIssued()
	g.End(model.ErrNoLease)
	if during != someday || g.LastIssued() != someday {
		t.Fatalf("last issued %d and, after the term, %d, want %d", during, g.LastIssued(), someday)
	}
	h.set(someday - 4000)
	begin(g, 8, 0)
	if _, got, _, err := g.Take(1); got != 0 || !errors.Is(err, model.ErrTooEarly) {
		t.Errorf("behind the last term: %d, %v", got, err)
	}
	h.set(someday + 1)
	if id, _, _, err := g.Take(1); err != nil || id <= before {
		t.Errorf("%d after %d, %v", id, before, err)
	}
}

// TestTermEndsInTheMiddleOfACall gives a worker ID up, and takes it up again, just
// when a call has looked at the old term: one that goes on in a millisecond and one
// that begins another, which reads the clock once more.
func TestTermEndsInTheMiddleOfACall(t *testing.T) {
	for name, c := range map[string]struct {
		to      int64 // ms by which the clock has gone on since the first ID
		reading int   // of the clock that is interrupted
		got     int   // IDs that the call may have
	}{
		"goes on":     {0, 1, 0},
		"begins":      {1, 1, 1},
		"begins anew": {1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var g *snowflake.Generator
			var nested int64
			h, left := &hand{}, 0
			now := func() (int64, time.Duration) {
				if left--; left == 0 {
					g.End(model.ErrNoLease)
					begin(g, 7, g.LastIssued())
					nested, _, _, _ = g.Take(1)
				}
				return h.now()
			}
			g, err := snowflake.New(snowflake.Options{EpochMs: epoch, Now: now})
			check.Must(t, err)
			h.set(someday)
			begin(g, 7, 0)
			before, _, _, err := g.Take(1)
			check.Must(t, err)
			h.set(someday + c.to)
			left = c.reading
			id, got, _, err := g.Take(1)
			if err != nil || got != c.got || got > 0 && id <= max(before, nested) || left > 0 || c.to > 0 && nested <= before {
				t.Errorf("the call under way got %d (%d, %v) after %d and, of the new term, %d", id, got, err, before, nested)
			}
		})
	}
}

// TestTermEndsForCallsUnderWay takes IDs while one worker ID is given up and taken
// up again and again, from the last time issued: a call that began under the old
// term must not repeat what the new one issues.
func TestTermEndsForCallsUnderWay(t *testing.T) {
	g, h := granted(t, 0)
	const takers, rounds, enough = 4, 3000, 2000
	var wg sync.WaitGroup
	ids := make([][]int64, takers)
	var stop atomic.Bool
	var taken atomic.Int64
	for i := range takers {
		wg.Go(func() {
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
		g.End(model.ErrNoLease)
		begin(g, 7, g.LastIssued())
	}
	stop.Store(true)
	wg.Wait()
	seen := map[int64]bool{}
	for _, list := range ids {
		for i, id := range list {
			if seen[id] {
				t.Fatalf("%d was issued twice", id)
			}
			if seen[id] = true; i > 0 && id <= list[i-1] {
				t.Fatalf("%d after %d", id, list[i-1])
			}
		}
	}
	if len(seen) < enough {
		t.Errorf("only %d IDs", len(seen))
	}
}

func TestOptions(t *testing.T) {
	for _, start := range []int{-1, 4097} {
		check.Is(t, check.Err(snowflake.New(snowflake.Options{SequenceStart: start})), model.ErrInvalidArgument,
			"sequence start", start)
	}
	g, h := granted(t, 0)
	h.set(epoch + 1<<41 - 1 - 60_000)
	check.Equal(t, g.Remaining(), time.Minute, "remaining")
}

func ExampleGenerator() {
	g, err := snowflake.New(snowflake.Options{EpochMs: epoch, SequenceStart: 100, Tolerance: 5 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	_, _, _, err = g.Take(1)
	fmt.Println(err)
	// A keeper has found out that worker ID 7 was never used, and has durably
	// reserved the next ten seconds.
	_, mono := snowflake.SystemClock()()
	g.Begin(7, 0)
	g.Extend(time.Now().Add(10*time.Second).UnixMilli(), mono+10*time.Second)
	id, _, _, err := g.Take(1)
	fmt.Println(id>>12&1023, err)
	// Output:
	// no worker ID is held: none has been acquired yet
	// 7 <nil>
}

func TestSystemClockIsTheMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, began := snowflake.SystemClock(), time.Now()
		for _, step := range []time.Duration{0, 1, time.Microsecond, 300 * time.Microsecond, time.Millisecond, time.Second, 1, time.Hour} {
			time.Sleep(step)
			wall, mono := clock()
			if now := time.Now(); wall != now.UnixNano() || mono != now.Sub(began) {
				t.Errorf("after %v: wall %d, monotonic %v; the machine says %d and %v", step, wall, mono, now.UnixNano(), now.Sub(began))
			}
		}
	})
}

func TestSystemClockIsSafeForConcurrentUse(t *testing.T) {
	clock := snowflake.SystemClock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
				before := time.Now()
				wall, mono := clock()
				if off := time.Duration(wall - before.UnixNano()); off < -5*time.Millisecond || off > 5*time.Second || mono < 0 {
					t.Errorf("off by %v, monotonic %v", off, mono)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkSystemClock(b *testing.B) {
	clock := snowflake.SystemClock()
	for b.Loop() {
		clock()
	}
}

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
