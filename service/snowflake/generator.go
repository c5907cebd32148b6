package snowflake

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"shardid/model"
)

// Options of a Generator.
type Options struct {
	// EpochMs is the start of the IDs' time, Unix milliseconds.
	EpochMs int64
	// WorkerBits and SeqBits are the widths of the IDs, see model.SnowflakeLayout; with
	// both 0 they are Leaf's.
	WorkerBits, SeqBits uint
	// SequenceStart bounds the random sequence that a new millisecond starts at:
	// 0…SequenceStart-1, so that IDs of a low rate are not all even. Leaf has 100;
	// 0 and 1 start at 0. At most 2^SeqBits.
	SequenceStart int
	// Tolerance is how far the clock may be behind and still be waited for; Leaf
	// has 5 ms.
	Tolerance time.Duration
	// Now is the clock; nil means SystemClock.
	Now Clock
}

// Generator makes snowflake IDs. Take is lock-free and safe for concurrent use;
// Begin, Extend and End belong to one keeper.
//
// IDs rise, and the time in one is never ahead of the clock. Mostly it is the
// clock's; only a saturated generator lags. Whenever a millisecond is used up
// before it has passed, the generator may, until the clock is 100 ms further, go
// on with what it left of the past since: so callers that slept, or were stopped,
// past the end of a millisecond lose none of it, timers need not be exact and no
// core spins. With fewer callers than IDs no millisecond is used up in time any
// more, and 100 ms after the last that was, the lag is 0, whatever it had been.
type Generator struct {
	opts      Options
	layout    model.SnowflakeLayout
	sequences int  // the layout's cap of IDs a millisecond
	timeShift uint // where the time begins in an ID

	term atomic.Pointer[term]
	last atomic.Int64 // time of the last ID of the terms that ended, Unix ms
}

// New makes a generator that refuses until Begin and Extend. The error is
// model.ErrInvalidArgument.
func New(opts Options) (*Generator, error) {
	layout := model.SnowflakeLayout{EpochMs: opts.EpochMs, WorkerBits: opts.WorkerBits, SeqBits: opts.SeqBits}
	if opts.WorkerBits == 0 && opts.SeqBits == 0 {
		layout.WorkerBits, layout.SeqBits = model.LeafWorkerBits, model.LeafSeqBits
	}
	if err := layout.Check(); err != nil {
		return nil, err
	}
	if opts.SequenceStart < 0 || opts.SequenceStart > layout.Sequences() {
		return nil, fmt.Errorf("%w: the bound of the sequence's start is %d, not in 0…%d",
			model.ErrInvalidArgument, opts.SequenceStart, layout.Sequences())
	}
	if opts.Now == nil {
		opts.Now = SystemClock()
	}
	g := &Generator{
		opts: opts, layout: layout, sequences: layout.Sequences(), timeShift: layout.WorkerBits + layout.SeqBits,
	}
	g.End(fmt.Errorf("%w: none has been acquired yet", model.ErrNoLease))
	return g, nil
}

// Begin takes up a worker ID, whose IDs up to Unix ms after may have been issued. Nothing
// is issued before Extend, and nothing at all with a worker ID that the layout has no room
// for: its IDs would be those of others.
func (g *Generator) Begin(workerID int, after int64) {
	if workerID < 0 || workerID >= g.layout.Workers() {
		g.End(fmt.Errorf("%w: worker ID %d is not 0…%d", model.ErrNoLease, workerID, g.layout.Workers()-1))
		return
	}
	g.replace(&term{worker: int64(workerID) << g.layout.SeqBits}, after)
}

// replace ends the present term before the next one can issue: their
// worker IDs may be the same.
func (g *Generator) replace(t *term, after int64) {
	if old := g.term.Load(); old != nil {
		if m := mark(old.mark.Swap(int64(closed))); m != unused && m != closed {
			g.last.Store(m.at() + g.opts.EpochMs)
		}
	}
	t.after = max(after, g.last.Load())
	t.mark.Store(int64(unused))
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
	if m := mark(g.term.Load().mark.Load()); m != unused && m != closed {
		return m.at() + g.opts.EpochMs
	}
	return g.last.Load()
}

// Take issues up to n IDs: first, first+1, … first+got-1, all of one millisecond,
// n at least 1. With got 0 and no error there is none right now and the caller
// tries again after wait. Errors: model.ErrNoLease, ErrTooEarly, ErrClockBack,
// ErrTimeExhausted.
func (g *Generator) Take(n int) (first int64, got int, wait time.Duration, err error) {
	t := g.term.Load()
	m := mark(t.mark.Load())
	wall, mono := g.opts.Now()
	ms := m.at() + g.opts.EpochMs
	if m.goesOn(wall-ms*int64(time.Millisecond), n, g.sequences) && t.allows(ms, mono) &&
		t.mark.CompareAndSwap(int64(m), int64(m)+int64(n)) {
		return g.id(t, m), n, 0, nil
	}
	return g.takeAnew(n)
}

// takeAnew is Take for all that is not to go on where the last call ended.
func (g *Generator) takeAnew(n int) (first int64, got int, wait time.Duration, err error) {
	for {
		t := g.term.Load()
		if t.ended != nil {
			return 0, 0, 0, t.ended
		}
		last := mark(t.mark.Load())
		if last == closed {
			continue // the next term is stored in a moment
		}
		wall, mono := g.opts.Now()
		from, wait, err := g.next(t, last, wall, n)
		if err != nil || wait > 0 {
			return 0, 0, wait, err
		}
		if ms := from.at() + g.opts.EpochMs; !t.allows(ms, mono) {
			return 0, 0, 0, t.refusal(ms)
		}
		got = min(n, g.sequences-from.used())
		if t.mark.CompareAndSwap(int64(last), int64(from)+int64(got)) {
			return g.id(t, from), got, 0, nil
		}
	}
}

// next is the mark that n more IDs, or as many as there are, continue from, or how
// long to wait for one.
func (g *Generator) next(t *term, m mark, wall int64, n int) (from mark, wait time.Duration, err error) {
	now := wall/int64(time.Millisecond) - g.opts.EpochMs
	at, slack, used, sequences := m.at(), m.slack(), m.used(), g.sequences
	if m == unused {
		at, slack, used = max(t.after-g.opts.EpochMs, -1), 0, sequences
	}
	switch {
	case now < 0 || now > g.layout.MaxMs()-g.opts.EpochMs:
		return 0, 0, g.outOfTime(wall)
	case now < at:
		wait, err = g.behind(at, wall, m == unused)
		return 0, wait, err
	case now-at > slack:
		at, slack, used = now, 0, g.start(n)
	case used < sequences:
	case now == at:
		return 0, g.until(at+1, wall), nil
	default:
		at, slack, used = at+1, slack-1, 0
	}
	if at == now && n >= sequences-used {
		slack = catchUp
	}
	return newMark(at, slack, used), 0, nil
}

// start is the first sequence number of a millisecond, random, and low enough
// that n fit if they can.
func (g *Generator) start(n int) int {
	if g.opts.SequenceStart < 2 {
		return 0
	}
	return min(rand.IntN(g.opts.SequenceStart), max(g.sequences-n, 0))
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
		model.ErrTimeExhausted, formatMs(g.opts.EpochMs), formatMs(g.layout.MaxMs()))
}

// Remaining is how long the 41 bits of time last, from the clock's now; negative
// when they have ended.
func (g *Generator) Remaining() time.Duration {
	wall, _ := g.opts.Now()
	left := g.layout.MaxMs() - wall/int64(time.Millisecond)
	return time.Duration(left) * time.Millisecond
}

func formatMs(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// term is a worker ID between Begin and End.
type term struct {
	worker int64 // shifted into its place
	after  int64 // Unix ms: IDs carry a later time
	// until is the last Unix ms that IDs may carry.
	until atomic.Int64
	// trust is when, by the monotonic clock, the grant ends, in nanoseconds.
	trust atomic.Int64
	// mark is how far the term has come; its type says more.
	mark atomic.Int64
	// ended is why there is no term; the other fields are then of no use.
	ended error
}

// id is the first ID of a term that continues from a mark.
func (g *Generator) id(t *term, m mark) int64 {
	return m.at()<<(g.timeShift&63) | t.worker | int64(m.used())
}

// allows holds an ID's time, Unix ms, against the bounds of the grant.
func (t *term) allows(ms int64, mono time.Duration) bool {
	return ms <= t.until.Load() && int64(mono) < t.trust.Load()
}

// refusal is why allows did not.
func (t *term) refusal(ms int64) error {
	switch until := t.until.Load(); {
	case until == 0:
		return fmt.Errorf("%w: its time has not been reserved yet", model.ErrNoLease)
	case ms > until:
		return fmt.Errorf("%w: time is reserved up to %s only and the reservation was not renewed", model.ErrNoLease, formatMs(until))
	}
	return fmt.Errorf("%w: its lease was not renewed in time", model.ErrNoLease)
}

const (
	// usedBits holds how many sequence numbers of a millisecond are used, 0…2^14.
	usedBits = 15
	// slackBits holds 0…catchUp.
	slackBits = 7
	// catchUp is for how many milliseconds, after one that was used up in time, the
	// generator may lag: 100 is the period after which a container that used up its
	// share of CPU goes on.
	catchUp = 100
)

// mark is how far a term has come, in one word: the time of its last ID, in ms since
// the epoch, above the slack, above the number of the sequences used of that time.
//
// Slack is how many ms the clock may be past that time for the generator to go on
// with it, and not with the clock's: catchUp for a millisecond that was used up in
// time, one less for each that followed it without a gap, and else 0.
type mark int64

// No ID has these: each says that more than 2^14 sequences are used.
const (
	unused mark = -2 // before the first ID
	closed mark = -1 // after the term: it makes a Take fail that read the mark before
)

func newMark(at, slack int64, used int) mark {
	return mark(at<<(slackBits+usedBits) | slack<<usedBits | int64(used))
}

func (m mark) at() int64    { return int64(m >> (slackBits + usedBits)) }
func (m mark) slack() int64 { return int64(m >> usedBits & (1<<slackBits - 1)) }
func (m mark) used() int    { return int(m & (1<<usedBits - 1)) }

// goesOn says whether n IDs of the mark's time follow now, when past is how many
// nanoseconds ago that millisecond began, and leave one more: the last ID takes the
// slow path, which may change the slack. No division here: it is the hot path.
func (m mark) goesOn(past int64, n, sequences int) bool {
	return uint64(past) < uint64(m.slack()+1)*uint64(time.Millisecond) && n < sequences-m.used()
}
