package snowflake

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"shardid/model"
)

const (
	timeBits   = 41 // of milliseconds: 69.7 years
	workerBits = 10
	seqBits    = 12
	// sequences is the format's cap of IDs a millisecond.
	sequences = 1 << seqBits
	// nextBits holds how many sequence numbers of the last millisecond are used,
	// 0…4096.
	nextBits = seqBits + 1
	maxTime  = 1<<timeBits - 1
	// catchUp is how many milliseconds a saturated generator may lag behind the
	// clock: callers that slept past the end of a millisecond use up what they
	// slept through, so that timers need not be exact and no core spins. 100 is the
	// period after which a container that used up its share of CPU goes on.
	catchUp = 100
)

// Options of a Generator.
type Options struct {
	// EpochMs is the start of the IDs' time, Unix milliseconds.
	EpochMs int64
	// SequenceStart bounds the random sequence that a new millisecond starts at:
	// 0…SequenceStart-1, so that IDs of a low rate are not all even. Leaf has 100;
	// 0 and 1 start at 0. At most 4096.
	SequenceStart int
	// Tolerance is how far the clock may be behind and still be waited for; Leaf
	// has 5 ms.
	Tolerance time.Duration
	// Now is the clock; nil means SystemClock.
	Now Clock
}

// Generator makes snowflake IDs. Take is lock-free and safe for concurrent use;
// Begin, Extend and End belong to one keeper.
type Generator struct {
	opts Options
	term atomic.Pointer[term]
	last atomic.Int64 // time of the last ID of the terms that ended, Unix ms
}

// term is a worker ID between Begin and End.
type term struct {
	worker int64 // shifted into its place
	after  int64 // Unix ms: IDs carry a later time
	// until is the last Unix ms that IDs may carry.
	until atomic.Int64
	// trust is when, by the monotonic clock, the grant ends, in nanoseconds.
	trust atomic.Int64
	// state is the time of the last ID, in ms since the epoch, above the number of
	// the sequences used of it; 0 before the first ID, closed after the term.
	state atomic.Uint64
	// ended is why there is no term; the other fields are then of no use.
	ended error
}

// closed is the state of a term that ended: it makes a Take fail that read the
// state before.
const closed = ^uint64(0)

// New makes a generator that refuses until Begin and Extend. The error is
// model.ErrInvalidArgument.
func New(opts Options) (*Generator, error) {
	if opts.SequenceStart < 0 || opts.SequenceStart > sequences {
		return nil, fmt.Errorf("%w: the bound of the sequence's start is %d, not in 0…%d", model.ErrInvalidArgument, opts.SequenceStart, sequences)
	}
	if opts.Now == nil {
		opts.Now = SystemClock()
	}
	g := &Generator{opts: opts}
	g.End(fmt.Errorf("%w: none was asked for yet", model.ErrNoLease))
	return g, nil
}

// Begin takes up a worker ID, 0…1023, whose IDs up to Unix ms after may have been
// issued. Nothing is issued before Extend.
func (g *Generator) Begin(workerID int, after int64) {
	g.replace(&term{worker: int64(workerID) << seqBits}, after)
}

// replace ends the present term for good before the next one can issue: their
// worker IDs may be the same.
func (g *Generator) replace(t *term, after int64) {
	if old := g.term.Load(); old != nil {
		if s := old.state.Swap(closed); s != 0 && s != closed {
			g.last.Store(int64(s>>nextBits) + g.opts.EpochMs)
		}
	}
	t.after = max(after, g.last.Load())
	g.term.Store(t)
}

// Extend lets the term issue IDs with a time of at most until, Unix ms, as long
// as the monotonic clock has not reached trust. It does nothing without a term.
func (g *Generator) Extend(until int64, trust time.Duration) {
	if t := g.term.Load(); t.ended == nil {
		t.trust.Store(int64(trust))
		t.until.Store(until)
	}
}

// End gives the worker ID up: no ID of it is issued once End has returned. Take
// refuses with the reason from then on.
func (g *Generator) End(reason error) { g.replace(&term{ended: reason}, 0) }

// LastIssued is the time of the latest ID, Unix ms, and 0 before the first.
func (g *Generator) LastIssued() int64 {
	if s := g.term.Load().state.Load(); s != 0 && s != closed {
		return int64(s>>nextBits) + g.opts.EpochMs
	}
	return g.last.Load()
}

// Take issues up to n IDs: first, first+1, … first+got-1, all of one millisecond,
// n at least 1. With got 0 and no error there is none right now and the caller
// tries again after wait. Errors: model.ErrNoLease, ErrTooEarly, ErrClockBack,
// ErrTimeExhausted.
func (g *Generator) Take(n int) (first int64, got int, wait time.Duration, err error) {
	for {
		t := g.term.Load()
		if t.ended != nil {
			return 0, 0, 0, t.ended
		}
		old := t.state.Load()
		if old == closed {
			continue // the next term is stored in a moment
		}
		wall, mono := g.opts.Now()
		at, seq, wait, err := g.next(t, old, wall, n)
		if err != nil || wait > 0 {
			return 0, 0, wait, err
		}
		if err := t.allows(at+g.opts.EpochMs, mono); err != nil {
			return 0, 0, 0, err
		}
		got = min(n, sequences-seq)
		if t.state.CompareAndSwap(old, uint64(at)<<nextBits|uint64(seq+got)) {
			return at<<(workerBits+seqBits) | t.worker | int64(seq), got, 0, nil
		}
	}
}

// next chooses the millisecond since the epoch and the first sequence number of
// the next ID, or how long to wait for one.
func (g *Generator) next(t *term, state uint64, wall int64, n int) (at int64, seq int, wait time.Duration, err error) {
	now := wall/int64(time.Millisecond) - g.opts.EpochMs
	last, used := int64(state>>nextBits), int(state&(1<<nextBits-1))
	if state == 0 {
		last, used = max(t.after-g.opts.EpochMs, -1), sequences
	}
	switch {
	case now < 0 || now > maxTime:
		return 0, 0, 0, g.outOfTime(wall)
	case now < last:
		wait, err = g.behind(last, wall, state == 0)
		return 0, 0, wait, err
	case now == last && used < sequences:
		return now, used, 0, nil
	case now == last:
		return 0, 0, g.until(last+1, wall), nil
	case state != 0 && used == sequences && now-last <= catchUp:
		return last + 1, 0, 0, nil
	}
	return now, g.start(n), 0, nil
}

// start is the first sequence number of a millisecond, random, and low enough
// that n fit if they can.
func (g *Generator) start(n int) int {
	if g.opts.SequenceStart < 2 {
		return 0
	}
	return min(rand.IntN(g.opts.SequenceStart), max(sequences-n, 0))
}

// until is the time to the start of a millisecond since the epoch.
func (g *Generator) until(at, wall int64) time.Duration {
	return time.Duration((at+g.opts.EpochMs)*int64(time.Millisecond) - wall)
}

// behind answers for a clock before the last millisecond that this term has used
// or, at its start, that an earlier holder may have.
func (g *Generator) behind(last, wall int64, starting bool) (time.Duration, error) {
	wait := g.until(last, wall)
	if wait <= g.opts.Tolerance {
		return wait, nil
	}
	until, left := formatMs(last+g.opts.EpochMs), wait.Round(time.Millisecond)
	if starting {
		return 0, fmt.Errorf("%w: the last holder of the worker ID may have issued IDs up to %s, %v from now", model.ErrTooEarly, until, left)
	}
	return 0, fmt.Errorf("%w: IDs were issued up to %s, %v from now: nothing is issued before", model.ErrClockBack, until, left)
}

func (g *Generator) outOfTime(wall int64) error {
	ms := wall / int64(time.Millisecond)
	if ms < g.opts.EpochMs {
		return fmt.Errorf("%w: the clock says %s, before the epoch %s: set the clock or snowflake.epoch_ms",
			model.ErrTimeExhausted, formatMs(ms), formatMs(g.opts.EpochMs))
	}
	return fmt.Errorf("%w: 41 bits of milliseconds from %s ended at %s: a new snowflake.epoch_ms and a new database are needed",
		model.ErrTimeExhausted, formatMs(g.opts.EpochMs), formatMs(g.opts.EpochMs+maxTime))
}

// allows holds an ID's time, Unix ms, against the bounds of the grant.
func (t *term) allows(ms int64, mono time.Duration) error {
	if until := t.until.Load(); ms > until {
		if until == 0 {
			return fmt.Errorf("%w: its time has not been reserved yet", model.ErrNoLease)
		}
		return fmt.Errorf("%w: time is reserved up to %s only and the reservation was not renewed: see /readyz", model.ErrNoLease, formatMs(until))
	}
	if trust := t.trust.Load(); int64(mono) >= trust {
		return fmt.Errorf("%w: its lease was not renewed in time: see /readyz", model.ErrNoLease)
	}
	return nil
}

// Remaining is how long the 41 bits of time last, from the clock's now; negative
// when they have ended.
func (g *Generator) Remaining() time.Duration {
	wall, _ := g.opts.Now()
	left := g.opts.EpochMs + maxTime - wall/int64(time.Millisecond)
	return time.Duration(left) * time.Millisecond
}

func formatMs(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
