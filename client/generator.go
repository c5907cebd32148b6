package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNoLease is in the error of a Generator that has no worker ID now, or no time left of
	// it. The error says why, and since when.
	ErrNoLease = errors.New("shardid: no lease of a worker ID")
	// ErrClockBack is in the error of a Generator whose clock was set back below the time of
	// the last ID. It ends when the clock is there again.
	ErrClockBack = errors.New("shardid: the clock was set back")
)

const (
	// tolerance is how far the clock may be behind and still be waited for.
	tolerance = 5 * time.Millisecond
	// catchUp is for how long after a millisecond that was used up in time the IDs may lag
	// behind the clock: who slept too long for the next millisecond loses none.
	catchUp = 100 * time.Millisecond
	// starts bounds the random sequence that a new millisecond starts at, so that IDs of a low
	// rate are not all divisible by a power of 2.
	starts = 100
	// closed is the mark of a term that has ended.
	closed = -1
)

// Generator makes snowflakes in the process, with a worker ID of a name that it leases from
// shardid and renews in the background. Make one with Client.Generator, share it, and Close it.
// Safe for concurrent use.
//
// An ID has the milliseconds since the name's epoch above the worker ID above a sequence. The
// IDs of a generator rise, and no other holder of a worker ID of the name makes the same. An ID
// is not ahead of the clock; after a millisecond that was used up it may lag by 100 ms.
//
// While no replica answers, a generator goes on for the name's hold, a minute by default. Then it
// refuses with ErrNoLease, and goes on by itself when a replica answers. A process that is copied
// with its memory makes IDs twice, as the package's comment says.
type Generator struct {
	term  atomic.Pointer[term] // nil in a zero value
	begun time.Time            // where the monotonic clock of clock begins
	clock func() (wall int64, mono time.Duration)

	client  *Client
	name    string
	base    context.Context // of keep
	cancel  context.CancelFunc
	keeping sync.WaitGroup
	hurry   chan struct{} // asks for a renewal now
	closing sync.Once
	closed  error // of Close

	// What follows belongs to keep, and then to Close.
	lease lease
	held  bool
	used  int64  // the latest time of the last term, Unix ms
	last  int64  // that of all terms
	lost  string // since when there is no lease

	mu    sync.Mutex    // guards what follows
	cause error         // of the last request; nil: it succeeded
	ahead time.Duration // how far the clock was ahead of the database's then
}

// term is a lease as the generator uses it, or the want of one.
type term struct {
	ended error // why there is none; the other fields are of no use then
	lease lease
	shift uint // where the time begins in an ID
	// worker is the worker ID in its place in an ID.
	worker int64
	start  int64 // the first mark
	// mark is the next number to issue: the milliseconds since the epoch above the sequence.
	// A number in the midst of a millisecond says that this millisecond was held against until.
	mark atomic.Int64
	// until is the last Unix ms that IDs may have.
	until atomic.Int64
	// fresh is until when, by the monotonic clock, the millisecond of mark may be gone on with
	// without a look at the wall clock.
	fresh atomic.Int64
	// lag is until when, by the wall clock in ns, the millisecond of mark may be behind it.
	lag atomic.Int64
}

// newTerm is a term whose IDs are later than after, Unix ms, and as the lease allows.
func newTerm(l lease, after int64) *term {
	t := &term{lease: l, shift: l.WorkerBits + l.SeqBits, worker: l.WorkerID << l.SeqBits}
	t.start = max(max(l.After, after)+1-l.Epoch, 0) << l.SeqBits
	t.mark.Store(t.start)
	t.extend(l.Until)
	return t
}

func (t *term) extend(until int64) { t.until.Store(min(max(until, t.until.Load()), t.lease.maxMs())) }

// id is the ID of a number.
func (t *term) id(number int64) int64 {
	return number>>t.lease.SeqBits<<t.shift | t.worker | number&(1<<t.lease.SeqBits-1)
}

// end ends the term, if it is one: no ID of it is issued any more. last is the latest time of
// its IDs, Unix ms; what the lease leaves out where there were none.
func (t *term) end() (last int64) {
	mark := t.mark.Swap(closed)
	if mark == t.start {
		return t.lease.After
	}
	return (mark-1)>>t.lease.SeqBits + t.lease.Epoch
}

// Next is one ID. At the most that the layout has in a millisecond it waits for the next, for
// Options.Timeout at most. Errors: ErrNoLease, ErrClockBack, ErrTimeout, ErrClosed, ErrZero.
func (g *Generator) Next() (int64, error) {
	t := g.term.Load()
	if t == nil {
		return 0, ErrZero
	}
	mono, mask := int64(time.Since(g.begun)), int64(1)<<(t.lease.SeqBits&63)-1
	for {
		// The millisecond of the last ID goes on, and this is not its last number, nor closed.
		mark := t.mark.Load()
		if at := mark & mask; at == 0 || at == mask || mono >= t.fresh.Load() {
			break
		}
		if t.mark.CompareAndSwap(mark, mark+1) {
			return t.id(mark), nil
		}
	}
	first, _, err := g.some(1, nil)
	return first, err
}

// Take is n IDs, 1 to MaxTake, which rise, or an error as of Next. What it has when it fails is
// lost. With few bits of sequence many IDs take longer than Options.Timeout.
func (g *Generator) Take(n int) ([]int64, error) {
	if g.term.Load() == nil {
		return nil, ErrZero
	}
	if n < 1 || n > MaxTake {
		return nil, fmt.Errorf("shardid: %d IDs: ask for 1 to %d", n, MaxTake)
	}
	ids := make([]int64, 0, n)
	var waiting time.Time
	for len(ids) < n {
		first, got, err := g.some(n-len(ids), &waiting)
		if err != nil {
			return nil, err
		}
		for i := range int64(got) {
			ids = append(ids, first+i)
		}
	}
	return ids, nil
}

// some is up to n consecutive IDs. It waits until Options.Timeout after since, which it sets when
// it is zero; nil for a wait of this call alone.
func (g *Generator) some(n int, since *time.Time) (first int64, got int, err error) {
	if since == nil {
		since = new(time.Time)
	}
	for {
		first, got, wait, err := g.try(n)
		if got > 0 || err != nil {
			return first, got, err
		}
		switch {
		case since.IsZero():
			*since = time.Now()
		case time.Since(*since) > g.client.opts.Timeout:
			return 0, 0, fmt.Errorf("%w: more are asked for than %d in a millisecond", ErrTimeout, 1<<g.term.Load().lease.SeqBits)
		}
		time.Sleep(wait)
	}
}

// try is up to n consecutive IDs of one millisecond, or how long to wait for one.
func (g *Generator) try(n int) (first int64, got int, wait time.Duration, err error) {
	for {
		t := g.term.Load()
		mark := t.mark.Load()
		if t.ended != nil {
			return 0, 0, 0, t.ended
		}
		if mark == closed {
			continue // the next term is stored in a moment
		}
		wall, mono := g.clock()
		bits, sequences := t.lease.SeqBits, 1<<t.lease.SeqBits
		now, at, from := wall/int64(time.Millisecond)-t.lease.Epoch, mark>>bits, mark
		if now < at {
			wait, err = t.behind(at, wall)
			return 0, 0, wait, err
		}
		goesOn := at == now || wall < t.lag.Load()
		if !goesOn {
			at = now
		}
		if ms := at + t.lease.Epoch; ms > t.until.Load() {
			return 0, 0, 0, g.over(t, ms)
		}
		if !goesOn {
			from = at<<bits + int64(min(rand.IntN(min(starts, sequences)), max(sequences-n, 0)))
		}
		next := (at + 1) << bits
		got = int(min(int64(n), next-from))
		if !t.mark.CompareAndSwap(mark, from+int64(got)) {
			continue
		}
		if at == now && from+int64(got) == next {
			t.lag.Store(wall + int64(catchUp))
		}
		end := max((now+t.lease.Epoch+1)*int64(time.Millisecond), t.lag.Load())
		t.fresh.Store(int64(mono) + end - wall)
		return t.id(from), got, 0, nil
	}
}

// behind answers for a clock before the time of the next ID, in ms since the epoch.
func (t *term) behind(at, wall int64) (time.Duration, error) {
	wait := time.Duration((at+t.lease.Epoch)*int64(time.Millisecond) - wall)
	if wait <= tolerance {
		return wait, nil
	}
	from, left := formatMs(at+t.lease.Epoch), wait.Round(time.Millisecond)
	if at<<t.lease.SeqBits == t.start {
		return 0, fmt.Errorf("%w whose time has begun: an earlier holder of worker ID %d of the name %q may have issued IDs of a time before %s, which the clock reaches in %v",
			ErrNoLease, t.lease.WorkerID, t.lease.Name, from, left)
	}
	return 0, fmt.Errorf("%w: the next ID of the name %q is of %s at the earliest, which the clock reaches in %v", ErrClockBack, t.lease.Name, from, left)
}
