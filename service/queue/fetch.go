package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"shardid/model"
)

const (
	// popTimeout bounds one pop; the store's own timeouts are shorter.
	popTimeout = 3 * time.Second
	// exhaustedFor is how long a list that reached its limit asks for no segment,
	// so that its callers do not each cost a transaction.
	exhaustedFor = time.Second
	// lockPatience is how long callers wait for another replica's refill before
	// they refill without the lock: its holder may have died. The cap of a push
	// keeps the list from being over-filled.
	lockPatience = 500 * time.Millisecond

	// aheadShare is the share of the indices that are left, one part in so many, that
	// a replica may hold ahead of demand.
	aheadShare = 100_000

	minBackoff = 2 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
)

// startFetch pops in the background unless that is under way. Callers hold mu.
func (l *list) startFetch() {
	if l.fetching {
		return
	}
	if l.closed == nil && !l.svc.spawn(l.fetch) {
		l.closed = errStopping
	}
	l.fetching = l.closed == nil
	if l.closed != nil {
		l.failLocked(l.closed)
	}
}

// fetch pops until no caller waits. A list has at most one fetch, so that what
// it pops within a history only rises.
func (l *list) fetch() {
	f := fetcher{list: l, backoff: minBackoff, since: time.Now()}
	for n := l.first(); n > 0; n = l.again(f.progress) {
		f.progress = f.step(n)
	}
}

// first says how many indices a fetch that just began pops: for those who wait,
// or, when none does, ahead of demand.
func (l *list) first() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		l.fetching = false
		return 0
	}
	l.observe()
	n := l.wanted()
	l.fetching = n > 0
	return n
}

// again says how many more to pop; 0 ends the fetch. A pop repeated for want of
// a refill is no sign of demand.
func (l *list) again(progress bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil || len(l.waiters) == 0 {
		l.fetching = false
		return 0
	}
	if progress {
		l.observe()
	}
	n := l.wanted()
	l.fetching = n > 0
	return n
}

func (l *list) observe() { l.demand.observe(time.Now(), l.svc.opts.PrefetchMax-1) }

// wanted is what waiters need and the distance ahead, less what is held.
// Callers hold mu.
func (l *list) wanted() int {
	n, largest := l.ahead()-l.held(), 0
	for _, w := range l.waiters {
		n += w.n
		largest = max(largest, w.n)
	}
	return min(n, max(l.svc.opts.PrefetchMax, largest), MaxBatch)
}

// ahead is the distance ahead of demand. A crash loses what is held, so it is a tiny
// share of what is left under the limit; and near the limit there is none, so that
// the last indices go to the first who ask. Callers hold mu.
func (l *list) ahead() int {
	return int(min(int64(l.demand.ahead), l.left()/aheadShare))
}

// left is how many indices can still be allocated under the limit, at most.
// Callers hold mu.
func (l *list) left() int64 { return max(0, l.cfg.Limit.LastIndex(l.key)-l.known) }

// fetcher is the state of one run of fetch.
type fetcher struct {
	*list
	backoff  time.Duration
	since    time.Time // of the last progress
	progress bool
}

// step pops n indices and refills the list when it ran dry; it says whether the
// pop gave something.
func (f *fetcher) step(n int) bool {
	if f.refuseTooLarge() {
		return f.progress
	}
	p, err := f.pop(n)
	if f.svc.ctx.Err() == nil {
		f.svc.pops.Note(f.list, err)
	}
	if err != nil {
		f.pause(err)
		return false
	}
	over := f.deliver(p)
	if len(p.Indices) > 0 {
		f.backoff, f.since = minBackoff, time.Now()
	}
	switch {
	case over:
		f.fail(f.limitReached())
	case len(p.Indices) < n:
		f.dry()
	case f.isLow(p.Len):
		f.refillSoon()
	}
	return len(p.Indices) > 0
}

// refuseTooLarge ends the waiting of batches that all that is left under the
// limit could not serve, before anything is popped for them: what is popped can
// only be issued by this replica. It says whether there were any.
func (f *fetcher) refuseTooLarge() bool {
	f.mu.Lock()
	near := f.left() < MaxBatch && slices.ContainsFunc(f.waiters, func(w *waiter) bool { return w.n > 1 })
	f.mu.Unlock()
	if !near {
		return false
	}
	ctx, cancel := context.WithTimeout(f.svc.ctx, popTimeout)
	defer cancel()
	state := f.svc.opts.Lists.State(ctx, []model.ListKey{f.key})[0]
	if state.Err != nil {
		return false // the pop will meet the same
	}
	f.saw(state)
	return f.failLarger(state.Len, f.limitReached())
}

// failLarger ends the waiting of batches that need more than the list, of that
// length, and its limit can give.
func (l *list) failLarger(length int64, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, most := len(l.waiters), int64(l.held())+length+l.left()
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if w.n == 1 || int64(w.n) <= most {
			return false
		}
		w.err = err
		close(w.done)
		return true
	})
	return len(l.waiters) < before
}

func (l *list) pop(n int) (model.Popped, error) {
	ctx, cancel := context.WithTimeout(l.svc.ctx, popTimeout)
	defer cancel()
	l.svc.stats.pops.Add(1)
	return l.svc.opts.Lists.Pop(ctx, l.key, n)
}

// pause notes why there is nothing and waits a little, longer each time.
func (f *fetcher) pause(err error) {
	f.mu.Lock()
	f.lastErr = err
	f.mu.Unlock()
	f.svc.sleep(f.backoff)
	f.backoff = min(2*f.backoff, maxBackoff)
	if f.svc.ctx.Err() != nil {
		f.fail(errStopping)
	}
}

// dry refills the list that gave too little and decides how to go on: at once,
// after a pause, or not at all. Callers get the first parts of a long segment
// while the others are still on their way.
func (f *fetcher) dry() {
	if !f.hasWaiters() {
		f.refillSoon()
		return
	}
	held := errors.Is(f.howRefillEnded(), errBusy) // and not a store that refused the lock
	err := f.refillNow(held && time.Since(f.since) > lockPatience, f.backoff)
	switch {
	case err == nil:
		f.backoff = min(2*f.backoff, maxBackoff)
	case errors.Is(err, model.ErrLimitReached):
		f.lastCall(f.limitReached())
	case errors.Is(err, model.ErrUnknownShard):
		f.lastCall(err)
	default:
		f.pause(err)
	}
}

// lastCall pops once more, for what another replica may have pushed last, and
// ends the waiting of those it does not serve.
func (f *fetcher) lastCall(err error) {
	f.mu.Lock()
	n := f.wanted()
	f.mu.Unlock()
	if n > 0 {
		if p, popErr := f.pop(n); popErr == nil {
			f.deliver(p)
		}
	}
	f.fail(err)
}

func (l *list) hasWaiters() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiters) > 0
}
