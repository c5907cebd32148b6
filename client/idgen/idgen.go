// Package idgen makes IDs of a time, a worker ID and a sequence: the snowflakes of shardid and of the
// programs that lease a worker ID of it, and its UIDs.
//
// A [Generator] turns a clock and a granted worker ID into IDs. It never waits, logs or remembers
// anything beyond its last ID. Whoever grants the worker ID sets two bounds: IDs carry a time later
// than everything an earlier holder may have used, and no later than the time that has durably been
// reserved for this one. So no ID repeats, whatever the clock does.
//
// Between the bounds there is one number, the time above the sequence, which only rises. A caller takes
// the numbers by which it raised that, with one compare-and-swap. The end of a term puts a value there
// that no call under way expects, so nothing is issued once it has ended.
package idgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// What a [RefusalError] wraps.
var (
	// ErrNoLease: no worker ID is held, or no time is left of it.
	ErrNoLease = errors.New("no worker ID is held")
	// ErrTooEarly: the present time may have been used with this worker ID before it was taken over.
	ErrTooEarly = errors.New("this time may have been used")
	// ErrClockBack: the clock is behind the time of the last ID by more than is waited for.
	ErrClockBack = errors.New("the clock went back")
	// ErrTimeExhausted: the clock is before the epoch, or past what the bits of time can hold.
	ErrTimeExhausted = errors.New("the time does not fit into the ID")
)

// Clock tells the wall clock in nanoseconds since 1970-01-01 UTC, which an operator or NTP may set, and a
// monotonic clock that counts from an arbitrary point and cannot be set. Safe for concurrent use.
type Clock func() (wall int64, mono time.Duration)

// resync is how old the difference between the two clocks may be: a clock that is set shows that late.
const resync = time.Millisecond

// SystemClock is the machine's clock. Reading the monotonic clock alone costs half of reading both, so the
// wall clock is read once a millisecond.
func SystemClock() Clock {
	start := time.Now()
	var offset, read atomic.Int64 // wall minus monotonic, and when that was read
	read.Store(-int64(resync))
	return func() (int64, time.Duration) {
		mono := time.Since(start)
		if int64(mono)-read.Load() < int64(resync) {
			return int64(mono) + offset.Load(), mono
		}
		now := time.Now()
		mono = now.Sub(start)
		offset.Store(now.UnixNano() - int64(mono))
		read.Store(int64(mono))
		return now.UnixNano(), mono
	}
}

// Options of a Generator.
type Options struct {
	Layout // required
	// SequenceStart bounds the random sequence that a new unit starts at: 0…SequenceStart-1, so that IDs
	// of a low rate are not all even. 0 and 1 start at 0.
	SequenceStart int
	// Tolerance is how far the clock may be behind the last ID and still be waited for.
	Tolerance time.Duration
	// CatchUp is for how long after a unit that was used up in time the IDs may lag behind the clock.
	CatchUp time.Duration
	// Now is the clock; nil means SystemClock.
	Now Clock
}

// Snowflakes are the options of a generator that starts and waits as Leaf does, on a clock; nil means SystemClock. It
// may lag for 100 ms, the period after which a container that used up its share of the CPU continues.
func Snowflakes(l Layout, now Clock) Options {
	return Options{Layout: l, SequenceStart: int(min(100, l.Sequences()/8)), Tolerance: 5 * time.Millisecond,
		CatchUp: 100 * time.Millisecond, Now: now}
}

// Generator makes IDs. It is safe for concurrent use, and Take is lock-free.
//
// IDs rise, and the time in one is never ahead of the clock. Mostly it is the clock's; only a saturated
// generator lags. Whenever a unit is used up before it has passed, the generator may, until the clock is
// CatchUp further, continue with what it left of the past since: so callers that slept, or were stopped, past
// the end of a unit lose none of it, timers need not be exact and no core spins. With fewer callers than
// IDs no unit is used up in time any more, and CatchUp after the last that was, the lag is 0.
type Generator struct {
	opts    Options
	bits    uint  // of the sequence in a number
	mask    int64 // of them
	maxTime int64 // the last time, in units since the epoch
	catchUp int64 // CatchUp in units
	unit    int64 // Unit in nanoseconds
	epochNs int64 // Epoch in nanoseconds since 1970

	terms sync.Mutex // held while the term is replaced
	term  atomic.Pointer[term]
	last  atomic.Int64 // time of the last ID of the terms that ended, in units since 1970
}

// term is a worker ID between Begin and End. A number is the time since the epoch above the sequence.
type term struct {
	worker int64        // shifted into its place in an ID
	start  int64        // the first number
	until  atomic.Int64 // the last time that IDs may carry, in units since the epoch; -1 before Extend
	trust  atomic.Int64 // when, by the monotonic clock, the grant ends, in nanoseconds
	lag    atomic.Int64 // until when, by the wall clock in nanoseconds, IDs may lag behind it
	ended  error        // why there is no worker ID; the other fields are then of no use

	_      [64]byte     // what every call writes has a cache line of its own
	number atomic.Int64 // the next to issue, or closed
	_      [56]byte
}

// closed is the number of a term that has ended: the fast path takes it for the last of its unit, which
// it leaves alone, and no number that a call has read equals it.
const closed = -1

// New makes a generator that refuses until Begin and Extend. The error is that of widths beyond their ranges.
func New(opts Options) (*Generator, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = SystemClock()
	}
	g := &Generator{
		opts: opts, bits: opts.SeqBits - opts.ShardBits, mask: opts.Sequences() - 1, maxTime: 1<<opts.TimeBits - 1,
		catchUp: int64(opts.CatchUp / opts.Unit), unit: int64(opts.Unit), epochNs: opts.Epoch * int64(opts.Unit),
	}
	g.End(fmt.Errorf("%w: none has been acquired yet", ErrNoLease))
	return g, nil
}

// Begin takes up a worker ID whose IDs of times up to after, in units since 1970, may have been issued.
// Nothing is issued before Extend, and nothing at all with a worker ID that the layout has no room for:
// its IDs would be those of others.
func (g *Generator) Begin(worker int, after int64) {
	if workers := g.opts.Workers(); worker < 0 || int64(worker) >= workers {
		g.End(fmt.Errorf("%w: worker ID %d is not 0…%d", ErrNoLease, worker, workers-1))
		return
	}
	g.replaceTerm(&term{worker: int64(worker) << g.bits}, after)
}

// Extend lets the term issue IDs of times up to until, in units since 1970, as long as the monotonic
// clock has not reached trust. It does nothing without a term.
func (g *Generator) Extend(until int64, trust time.Duration) {
	if t := g.term.Load(); t.ended == nil {
		t.trust.Store(int64(trust))
		t.until.Store(max(min(until, g.opts.Epoch+g.maxTime)-g.opts.Epoch, -1))
	}
}

// End gives the worker ID up: no ID of it is issued once End has returned. Take refuses with the reason
// from then on.
func (g *Generator) End(reason error) { g.replaceTerm(&term{ended: reason}, 0) }

// replaceTerm ends the present term before the next one can issue: their worker IDs may be the same.
func (g *Generator) replaceTerm(t *term, after int64) {
	g.terms.Lock()
	defer g.terms.Unlock()
	if old := g.term.Load(); old != nil && old.ended == nil {
		if number := old.number.Swap(closed); number != old.start {
			g.last.Store((number-1)>>g.bits + g.opts.Epoch)
		}
	}
	t.start = closed
	if t.ended == nil {
		used := min(max(after, g.last.Load(), g.opts.Epoch-1)-g.opts.Epoch, g.maxTime)
		t.start = (used + 1) << g.bits
	}
	t.number.Store(t.start)
	t.until.Store(-1)
	g.term.Store(t)
}

// LastIssued is the time of the latest ID, in units since 1970, and 0 before the first.
func (g *Generator) LastIssued() int64 {
	g.terms.Lock()
	defer g.terms.Unlock()
	t := g.term.Load()
	if number := t.number.Load(); number != t.start {
		return (number-1)>>g.bits + g.opts.Epoch
	}
	return g.last.Load()
}

// Remaining is how long the bits of time last from the clock's now; negative when they have ended.
func (g *Generator) Remaining() time.Duration {
	wall, _ := g.opts.Now()
	return g.timeOf(g.maxTime).Sub(time.Unix(0, wall))
}

// Take issues up to n IDs: first, first+1, … first+got-1, all of one unit of time, n at least 1. With got
// 0 and no error there is none right now and the caller tries again after wait. The error is the reason
// of End, or a *RefusalError.
func (g *Generator) Take(n int) (first int64, got int, wait time.Duration, err error) {
	t := g.term.Load()
	for {
		// Here the unit of the last ID continues, and keeps one number: its last one may let the IDs lag. No
		// division here: it is the hot path.
		number := t.number.Load()
		wall, mono := g.opts.Now()
		at := number >> (g.bits & 63)
		past := wall - g.epochNs - at*g.unit
		if int64(n) > g.mask-number&g.mask || past < 0 || past >= g.unit && wall >= t.lag.Load() ||
			at > t.until.Load() || int64(mono) >= t.trust.Load() {
			break
		}
		if t.number.CompareAndSwap(number, number+int64(n)) {
			return g.compose(t, number), n, 0, nil
		}
	}
	return g.takeAnew(int64(n))
}

// TakeAll appends n IDs to dst, 1 or more, and waits for those that the present units do not have. Once it has to,
// patience bounds the wait. With an error, the IDs that it has appended are lost. Errors: those of Take, and the cause
// of the context.
func (g *Generator) TakeAll(
	ctx context.Context, n int, dst []int64, patience func(context.Context) (context.Context, context.CancelFunc),
) ([]int64, error) {
	for waits := false; ; {
		first, got, wait, err := g.Take(n)
		for id := first; id < first+int64(got); id++ {
			dst = append(dst, id)
		}
		switch n -= got; {
		case err != nil || n == 0:
			return dst, err
		case got > 0:
			continue
		case !waits:
			var cancel context.CancelFunc
			ctx, cancel = patience(ctx)
			defer cancel()
			waits = true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return dst, context.Cause(ctx)
		}
	}
}

// Ready is the error that Take would give now; nil where it issues IDs or says how long to wait.
func (g *Generator) Ready() error {
	_, _, _, err := g.takeAnew(0)
	return err
}

// takeAnew is Take for all that is not to continue where the last call ended. With an n of 0 it changes nothing.
func (g *Generator) takeAnew(n int64) (first int64, got int, wait time.Duration, err error) {
	bits := g.bits
	for {
		t := g.term.Load()
		if t.ended != nil {
			return 0, 0, 0, t.ended
		}
		number := t.number.Load()
		if number == closed {
			continue // the next term is stored in a moment
		}
		wall, mono := g.opts.Now()
		// last is the time of the last ID or, at the start, the last that an earlier holder may have used.
		now, at, last, from := wall/g.unit-g.opts.Epoch, number>>bits, (number-1)>>bits, number
		switch {
		case now < 0:
			return 0, 0, 0, g.refuse(ErrTimeExhausted, now,
				"the clock says %s, before the epoch %s", g.format(now), g.format(0))
		case now > g.maxTime:
			return 0, 0, 0, g.refuse(ErrTimeExhausted, now, "%d bits of time from %s ended at %s: a later epoch is "+
				"needed, in a new database or of a new name", g.opts.TimeBits, g.format(0), g.format(g.maxTime))
		case now < last:
			if wait = g.waitFor(last, wall); wait <= g.opts.Tolerance {
				return 0, 0, wait, nil
			}
			refusal := g.refuse(ErrClockBack, now, "IDs were issued up to %s, %v from now: nothing is issued before",
				g.format(last), wait.Round(time.Millisecond))
			if number == t.start {
				refusal = g.refuse(ErrTooEarly, now, "the last holder of the worker ID may have issued IDs up to %s, "+
					"%v from now", g.format(last), wait.Round(time.Millisecond))
			}
			refusal.Bound, refusal.Wait = last+g.opts.Epoch, wait
			return 0, 0, 0, refusal
		case now < at:
			return 0, 0, g.waitFor(at, wall), nil // the last unit is used up
		case at < now && wall >= t.lag.Load():
			at = now
			from = now<<bits + g.startSequence(n)
		}
		until := t.until.Load()
		if at > until || int64(mono) >= t.trust.Load() {
			refusal := g.refuse(ErrNoLease, now, "time is reserved up to %s only and the reservation was not renewed",
				g.format(until))
			switch {
			case until < 0:
				refusal.why = "its time has not been reserved yet"
			case at <= until:
				refusal.why = "its lease was not renewed in time"
			}
			refusal.Bound = until + g.opts.Epoch
			return 0, 0, 0, refusal
		}
		if n == 0 {
			return 0, 0, 0, nil
		}
		next := (at + 1) << bits
		count := min(n, next-from)
		if !t.number.CompareAndSwap(number, from+count) {
			continue
		}
		if at == now && from+count == next {
			t.lag.Store((now + g.opts.Epoch + g.catchUp + 1) * g.unit)
		}
		return g.compose(t, from), int(count), 0, nil
	}
}

// compose is the ID of a number of a term.
func (g *Generator) compose(t *term, number int64) int64 {
	seq := number & g.mask
	return (number-seq)<<(g.opts.WorkerBits&63) | t.worker | seq
}

// startSequence is the first sequence of a new unit: random, and low enough that n fit if they can.
func (g *Generator) startSequence(n int64) int64 {
	if g.opts.SequenceStart < 2 {
		return 0
	}
	return min(rand.Int64N(int64(g.opts.SequenceStart)), max(g.mask+1-n, 0))
}

// timeOf is when a time since the epoch begins.
func (g *Generator) timeOf(at int64) time.Time { return g.opts.Time(at + g.opts.Epoch) }

// waitFor is how long the wall clock takes to a time since the epoch.
func (g *Generator) waitFor(at, wall int64) time.Duration {
	return g.timeOf(at).Sub(time.Unix(0, wall))
}

// RefusalError is why there is no ID now.
type RefusalError struct {
	// Reason is ErrNoLease, ErrTooEarly, ErrClockBack or ErrTimeExhausted.
	Reason error
	// Now is the clock's time, in units since 1970.
	Now int64
	// Bound is the last time that was issued or that an earlier holder may have used, for ErrTooEarly and
	// ErrClockBack; and the last that is reserved for ErrNoLease. In units since 1970.
	Bound int64
	// Wait is how long the clock takes to Bound, for ErrTooEarly and ErrClockBack.
	Wait time.Duration

	why string
}

// refuse is a refusal at a time since the epoch, for a reason.
func (g *Generator) refuse(reason error, now int64, why string, args ...any) *RefusalError {
	return &RefusalError{Reason: reason, Now: now + g.opts.Epoch, why: fmt.Sprintf(why, args...)}
}

// Unwrap is the reason.
func (r *RefusalError) Unwrap() error { return r.Reason }

func (r *RefusalError) Error() string { return r.Reason.Error() + ": " + r.why }

// format writes a time since the epoch.
func (g *Generator) format(at int64) string {
	return g.timeOf(at).Format("2006-01-02T15:04:05.000Z07:00")
}
