package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/idgen"
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
	clock idgen.Clock

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
	last  int64  // the time of the last ID of the terms that ended, Unix ms
	lost  string // since when there is no lease

	mu    sync.Mutex    // guards what follows
	cause error         // of the last request; nil: it succeeded
	ahead time.Duration // how far the clock was ahead of the database's then
}

// term is a lease as the generator uses it, or used it when it has ended.
type term struct {
	gen   *idgen.Generator
	lease lease
	until atomic.Int64 // the last Unix ms that IDs may have
	ended error        // why it has ended
}

// newTerm is a term whose IDs are later than after, Unix ms, and as the lease allows, which was
// checked.
func newTerm(l lease, after int64, clock idgen.Clock) *term {
	gen, err := idgen.New(idgen.Options{
		Unit: time.Millisecond, Epoch: l.Epoch, TimeBits: 63 - l.WorkerBits - l.SeqBits,
		WorkerBits: l.WorkerBits, SeqBits: l.SeqBits, SequenceStart: min(starts, 1<<l.SeqBits),
		Tolerance: tolerance, CatchUp: catchUp, Now: clock,
	})
	if err != nil {
		panic(err)
	}
	t := &term{gen: gen, lease: l}
	gen.Begin(int(l.WorkerID), max(l.After, after))
	t.extend(l.Until)
	return t
}

// extend never takes back what was granted. Only the time of an ID ends a lease, whatever the
// clocks do.
func (t *term) extend(until int64) {
	until = min(max(until, t.until.Load()), t.lease.maxMs())
	t.until.Store(until)
	t.gen.Extend(until, math.MaxInt64)
}

// Next is one ID. At the most that the layout has in a millisecond it waits for the next, for
// Options.Timeout at most. Errors: ErrNoLease, ErrClockBack, ErrTimeout, ErrClosed, ErrZero.
func (g *Generator) Next() (int64, error) {
	t := g.term.Load()
	if t == nil {
		return 0, ErrZero
	}
	if id, got, _, _ := t.gen.Take(1); got == 1 {
		return id, nil
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
		t := g.term.Load()
		first, got, wait, err := t.gen.Take(n)
		if err != nil {
			return 0, 0, g.explain(t, err)
		}
		if got > 0 {
			return first, got, nil
		}
		switch {
		case since.IsZero():
			*since = time.Now()
		case time.Since(*since) > g.client.opts.Timeout:
			return 0, 0, fmt.Errorf("%w: more are asked for than %d in a millisecond",
				ErrTimeout, 1<<t.lease.SeqBits)
		}
		time.Sleep(wait)
	}
}

// explain is the error of a caller, for one of a term.
func (g *Generator) explain(t *term, err error) error {
	var r *idgen.RefusalError
	if !errors.As(err, &r) {
		return err // why the term has ended
	}
	bound, left := formatMs(r.Bound), r.Wait.Round(time.Millisecond)
	switch {
	case errors.Is(err, idgen.ErrTooEarly):
		return fmt.Errorf("%w whose time has begun: an earlier holder of worker ID %d of the name %q may have issued "+
			"IDs of times up to %s, which the clock reaches in %v",
			ErrNoLease, t.lease.WorkerID, t.lease.Name, bound, left)
	case errors.Is(err, idgen.ErrClockBack):
		return fmt.Errorf("%w: IDs of the name %q were issued up to %s, which the clock reaches in %v",
			ErrClockBack, t.lease.Name, bound, left)
	case r.Now < t.lease.Epoch:
		return fmt.Errorf("%w: it says %s, and the IDs of the name %q begin at %s",
			ErrClockBack, formatMs(r.Now), t.lease.Name, formatMs(t.lease.Epoch))
	}
	return g.over(t, r.Now)
}
