package uid

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/model"
)

const (
	// minFill and maxFill bound the pause after a fill that failed. A mark that was raised ends it.
	minFill = time.Millisecond
	maxFill = 500 * time.Millisecond
	// exhausted is for how long the ring is not filled once the time does not fit into the IDs: a clock may be set.
	exhausted = time.Second
)

// ring holds the IDs of cached mode ahead. It is a pool of held IDs that is filled with whole seconds, one after the
// other, whatever the clock says. Each term of a worker ID has a pool of its own, which is closed with it: what is
// left, and what a fill under way is about to bring, is dropped, so that no ID of a term is taken once it has ended.
type ring struct {
	layout  model.UIDLayout
	size    int64              // IDs that it has room for
	patient int                // a batch of more than so many waits for the filler, whatever the policy
	refusal context.Context    // of callers with TakeRefuse: it has ended; nil with TakeWait
	second  func() int64       // the clock's, Unix seconds
	put     func(second int64) // told the last second after each fill
	pool    hold.Options       // of each term's pool, without a source

	held atomic.Pointer[heldTerm] // never nil
	last atomic.Int64             // last second that was put, in any term; 0 before the first

	mu     sync.Mutex  // guards last against other fills, ended and err of the terms, and what follows
	before hold.Counts // of the other terms
}

// heldTerm is a worker ID's part of the ring. It is the source of its pool.
type heldTerm struct {
	*ring
	pool   *hold.Pool
	worker int64
	after  int64        // IDs carry a later second
	until  atomic.Int64 // IDs carry at most this second
	filled atomic.Bool  // a second of this term was put
	ended  bool
	err    error // why the last fill put nothing, or why the term has ended
}

// newRing makes the ring of options that were checked, for a service.
func newRing(o Options, s *Service) *ring {
	sequences := o.Layout.Sequences()
	r := &ring{layout: o.Layout, size: sequences << o.BoostPower, second: s.second, put: s.put}
	r.patient = int(r.size - sequences)
	if o.RejectTake == TakeRefuse {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(model.ErrRingEmpty)
		r.refusal = ctx
	}
	low := r.size - sequences + 1 // a second's IDs find room below that
	if o.RejectPut == PutDiscard {
		low = min(low, max(1, r.size*int64(o.PaddingFactor)/100))
	}
	r.pool = hold.Options{
		Lasts: time.Hour, Least: r.size, Most: r.size, Low: float64(low) / float64(r.size), // it is always full
		Timeout: o.Timeout, Empty: model.ErrRingEmpty, FirstPause: minFill, LastPause: maxFill,
		Final: func(err error) bool { return errors.Is(err, model.ErrTimeExhausted) }, Refuse: exhausted,
		Go: s.background.Go,
	}
	r.begin(0, 0)
	r.end(fmt.Errorf("%w: none has been acquired yet", model.ErrNoLease))
	return r
}

// begin takes up a worker ID whose IDs up to a second may be in use.
func (r *ring) begin(worker, after int64) {
	t := &heldTerm{ring: r, worker: worker, after: after}
	t.until.Store(after)
	options := r.pool
	options.Source = t
	t.pool = hold.New(options)
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.held.Swap(t)
	if old == nil {
		return
	}
	old.close(model.ErrLeaseLost)
	c := old.pool.Counts()
	r.before.Issued += c.Issued
	r.before.Dropped += c.Dropped
	r.before.Waits += c.Waits
}

// end ends the term.
func (r *ring) end(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held.Load().close(reason)
}

// close ends the term, if it has not. Callers hold mu.
func (t *heldTerm) close(reason error) {
	if !t.ended {
		t.ended, t.err = true, reason
		t.pool.Close(reason)
	}
}

// extend lets the term fill the ring up to a second.
func (r *ring) extend(until int64) {
	t := r.held.Load()
	t.until.Store(until)
	r.mu.Lock()
	fails := !t.filled.Load() || t.err != nil
	r.mu.Unlock()
	if fails {
		t.pool.Retry()
	}
}

// fillUp fills the ring although more than the padding is left.
func (r *ring) fillUp() {
	if t := r.held.Load(); t.pool.Counts().Held <= int64(r.patient) {
		t.pool.Retry()
	}
}

// take takes IDs as Service.Next. Nobody is refused before the first fill.
func (r *ring) take(ctx context.Context, count int, dst []int64) ([]int64, error) {
	t := r.held.Load()
	if r.refusal != nil && count <= r.patient && t.pool.Began() {
		ctx = r.refusal
	}
	if count > 1 {
		return t.pool.Take(ctx, count, dst)
	}
	id, err := t.pool.Next(ctx)
	if err != nil {
		return dst, err
	}
	return append(dst, id), nil
}

// More implements hold.Source: whole seconds, of which none is put twice, whatever comes of the IDs.
func (t *heldTerm) More(_ context.Context, n int64) (runs []hold.Run, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, t.err
	}
	last, sequences := t.last.Load(), t.layout.Sequences()
	if !t.filled.Load() { // it begins with the clock's second
		last = max(last, t.after, t.second()-1)
	}
	for ; n >= sequences; n -= sequences {
		if err = t.check(last + 1); err != nil {
			break
		}
		last++
		runs = append(runs, hold.Run{First: t.layout.Compose(last, t.worker, 0), Count: sequences, Stride: 1})
	}
	t.err = nil
	if len(runs) == 0 {
		t.err = err
		return nil, err
	}
	t.last.Store(last)
	t.filled.Store(true)
	t.put(last)
	return runs, nil // an error comes again with the next fill
}

// check says whether IDs of a second may be issued. Errors: model.ErrTimeExhausted, and ErrNoLease when the mark is
// used up.
func (t *heldTerm) check(second int64) error {
	if err := t.layout.CheckSecond(second); err != nil {
		return err
	}
	if until := t.until.Load(); second > until {
		return fmt.Errorf("%w: second %d is beyond the mark %d", model.ErrNoLease, second, until)
	}
	return nil
}

// counts are those since the start, and what is held now.
func (r *ring) counts() hold.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.held.Load().pool.Counts()
	c.Issued += r.before.Issued
	c.Dropped += r.before.Dropped
	c.Waits += r.before.Waits
	return c
}

// position is the second that comes before the next one to be put.
func (r *ring) position(now int64) int64 {
	t := r.held.Load()
	if t.filled.Load() {
		return r.last.Load()
	}
	return max(r.last.Load(), t.after, now-1)
}

// ready is nil when IDs are held, or may be.
func (r *ring) ready() error {
	t := r.held.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.err == nil || t.pool.Counts().Held > 0 {
		return nil
	}
	return t.err
}

// dry says why the ring is empty.
func (r *ring) dry() error {
	t := r.held.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.err != nil {
		return fmt.Errorf("%w and cannot be filled: %w", model.ErrRingEmpty, t.err)
	}
	return fmt.Errorf("%w: IDs are asked for faster than it is filled: try again, or set uid.reject_take to "+
		"wait", model.ErrRingEmpty)
}
