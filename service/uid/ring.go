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

// ring holds the IDs of cached mode ahead. It is a pool of held IDs, and its source, which fills it with whole seconds,
// one after the other, whatever the clock says. When a term ends, what is left, and what a fill under way is about to
// bring, is dropped, so that no ID of a term is taken once it has ended.
type ring struct {
	svc     *Service
	pool    *hold.Pool
	size    int64           // IDs that it has room for
	patient int             // a batch of more than so many waits for the filler, whatever the policy
	refusal context.Context // of callers with TakeRefuse: it has ended; nil with TakeWait

	ended atomic.Pointer[error] // why there is no term; nil while there is one
	last  atomic.Int64          // last second that was put, in any term; 0 before the first

	mu   sync.Mutex // held during a fill, and guards ended against it, and what follows
	term *term      // the present one, or the last
	err  error      // why the last fill of the term put nothing
}

// newRing makes the ring of options that were checked, for a service.
func newRing(o Options, s *Service) *ring {
	sequences := o.Layout.Sequences()
	r := &ring{svc: s, size: sequences << o.BoostPower}
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
	r.pool = hold.New(hold.Options{ // that is always full
		Source: r, Lasts: time.Hour, Least: r.size, Most: r.size, Low: float64(low) / float64(r.size),
		Timeout: o.Timeout, Empty: model.ErrRingEmpty, FirstPause: minFill, LastPause: maxFill,
		Final: r.isFinal, Refuse: exhausted, Go: s.background.Go,
	})
	r.end(fmt.Errorf("%w: none has been acquired yet", model.ErrNoLease))
	return r
}

// isFinal says whether an error of a fill is one that waiting would not mend.
func (r *ring) isFinal(err error) bool {
	return errors.Is(err, model.ErrTimeExhausted) || r.ended.Load() != nil
}

// begin takes up a worker ID.
func (r *ring) begin(t *term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
	r.term, r.err = t, nil
	r.ended.Store(nil)
	r.pool.Wake()
}

// end ends the term. Whoever waits is told.
func (r *ring) end(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended.Store(&reason)
	r.drop()
	r.pool.Wake()
}

// drop gives up what is held, and what a fill under way is about to bring. Callers hold mu.
func (r *ring) drop() { r.pool.Drop(func(hold.Run) hold.Run { return hold.Run{} }) }

// extend continues to fill the ring, once the mark of the term was raised.
func (r *ring) extend(t *term) {
	r.mu.Lock()
	fails := !t.filled.Load() || r.err != nil
	r.mu.Unlock()
	if fails {
		r.pool.Retry()
	}
}

// fillUp fills the ring although more than the padding is left.
func (r *ring) fillUp() {
	if r.pool.Counts().Held <= int64(r.patient) {
		r.pool.Retry()
	}
}

// take takes IDs as Service.Next. Nobody is refused before the first fill.
func (r *ring) take(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if reason := r.ended.Load(); reason != nil {
		return dst, *reason
	}
	if r.refusal != nil && count <= r.patient && r.pool.Began() {
		ctx = r.refusal
	}
	if count > 1 {
		return r.pool.Take(ctx, count, dst)
	}
	id, err := r.pool.Next(ctx)
	if err != nil {
		return dst, err
	}
	return append(dst, id), nil
}

// More implements hold.Source: whole seconds, of which none is put twice, whatever comes of the IDs. The first one of a
// term is the clock's.
func (r *ring) More(_ context.Context, n int64) (runs []hold.Run, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason := r.ended.Load(); reason != nil {
		return nil, *reason
	}
	t, layout := r.term, r.svc.opts.Layout
	last, sequences, worker := r.svc.position(t), layout.Sequences(), r.svc.firstWorker()+t.node
	for ; n >= sequences; n -= sequences {
		if err = r.check(last + 1); err != nil {
			break
		}
		last++
		runs = append(runs, hold.Run{First: layout.Compose(last, worker, 0), Count: sequences, Stride: 1})
	}
	r.err = nil
	if len(runs) == 0 {
		r.err = err
		return nil, err
	}
	r.last.Store(last)
	t.filled.Store(true)
	r.svc.put(t, last)
	return runs, nil // an error comes again with the next fill
}

// check says whether IDs of a second may be issued. Errors: model.ErrTimeExhausted, and ErrNoLease when the mark is
// used up. Callers hold mu.
func (r *ring) check(second int64) error {
	if err := r.svc.checkTime(second); err != nil {
		return err
	}
	if mark := r.term.mark.Load(); second > mark {
		return fmt.Errorf("%w: second %d is beyond the mark %d", model.ErrNoLease, second, mark)
	}
	return nil
}

// ready is nil when IDs are held, or may be.
func (r *ring) ready() error {
	if reason := r.ended.Load(); reason != nil {
		return *reason
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool.Counts().Held > 0 {
		return nil
	}
	return r.err
}

// dry says why the ring is empty.
func (r *ring) dry() error {
	r.mu.Lock()
	err := r.err
	r.mu.Unlock()
	if reason := r.ended.Load(); reason != nil {
		err = *reason
	}
	if err != nil {
		return fmt.Errorf("%w and cannot be filled: %w", model.ErrRingEmpty, err)
	}
	return fmt.Errorf("%w: %w: IDs are asked for faster than it is filled",
		model.Do("try again, or set uid.reject_take to wait"), model.ErrRingEmpty)
}
