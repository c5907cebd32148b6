package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// popTimeout bounds one pop; the store's own timeouts are shorter.
	popTimeout = 3 * time.Second
	// exhaustedFor is how long a list that reached its limit, or waits for an operator's word,
	// asks for no segment, so that its callers do not each cost a transaction.
	exhaustedFor = time.Second
	// lockPatience is how long callers wait for another replica's refill before
	// they ignore its lock: it may have died. The cap of a push keeps the list from
	// being over-filled.
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
	if l.closed == nil && !l.svc.background.Go(l.fetch) {
		l.closed = background.ErrStopping
	}
	l.fetching = l.closed == nil
	if l.closed != nil {
		l.waiters.FailAll(l.closed)
	}
}

// fetch pops until no caller waits. A list has at most one fetch, so that what
// it pops within a life only rises.
func (l *list) fetch() {
	f := fetcher{list: l, backoff: minBackoff, since: time.Now()}
	for n := l.next(true, true); n > 0; n = l.next(false, f.progress) {
		f.progress = f.step(n)
	}
}

// next says how many indices to pop; 0 and less end the fetch. The first pop may be
// for no waiter, only ahead of demand. A pop repeated for want of a refill, without
// progress, is no sign of demand.
func (l *list) next(first, progress bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetching = false
	if l.closed != nil || !first && len(l.waiters) == 0 {
		return 0
	}
	if progress {
		l.demand.observe(time.Now(), l.svc.opts.PrefetchMax-1)
	}
	n := l.wanted()
	l.fetching = n > 0
	return n
}

// wanted is what waiters need and the distance ahead, less what is held.
// Callers hold mu.
func (l *list) wanted() int {
	needed, largest := l.waiters.Needed()
	return min(l.ahead()-l.held()+needed, max(l.svc.opts.PrefetchMax, largest), model.MaxBatch)
}

// ahead is the distance ahead of demand. A crash loses what is held, so it is a tiny
// share of what is left under the limit; and near the limit there is none, so that
// the last indices go to the first who ask. Callers hold mu.
func (l *list) ahead() int {
	return int(min(int64(l.demand.ahead), l.left()/aheadShare))
}

// left is how many indices can still be allocated under the limit, at most.
// Callers hold mu.
func (l *list) left() int64 {
	return max(0, min(l.cfg.Limit.LastIndex(l.key), l.svc.opts.Region.MaxIndex())-l.known)
}

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
	if f.svc.background.Context().Err() == nil {
		f.svc.pops.Note(f.list, err)
	}
	if err != nil {
		f.pause(err)
		return false
	}
	over, low := f.deliver(p)
	if len(p.Indices) > 0 {
		f.backoff, f.since = minBackoff, time.Now()
	}
	switch {
	case over:
		f.fail(f.limitReached())
	case len(p.Indices) < n:
		f.dry()
	case low:
		f.refillSoon()
	}
	return len(p.Indices) > 0
}

// refuseTooLarge ends the waiting of batches that all that is left under the
// limit could not serve, before anything is popped for them: what is popped can
// only be issued by this replica. It says whether there were any.
func (f *fetcher) refuseTooLarge() bool {
	f.mu.Lock()
	_, largest := f.waiters.Needed()
	near := f.left() < model.MaxBatch && largest > 1
	f.mu.Unlock()
	if !near {
		return false
	}
	ctx, cancel := context.WithTimeout(f.svc.background.Context(), popTimeout)
	defer cancel()
	state := f.svc.opts.Lists.State(ctx, []model.ListKey{f.key})[0]
	if state.Err != nil {
		return false // the pop will meet the same
	}
	f.svc.purged(f.key, state.Purged)
	err := f.limitReached()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saw(state)
	most := int64(f.held()) + state.Len + f.left()
	return f.waiters.Fail(err, func(count int) bool { return count > 1 && int64(count) > most })
}

func (l *list) pop(n int) (model.Popped, error) {
	ctx, cancel := context.WithTimeout(l.svc.background.Context(), popTimeout)
	defer cancel()
	l.svc.stats.pops.Add(1)
	return l.svc.opts.Lists.Pop(ctx, l.key, n)
}

// pause notes why there is nothing and waits a little, longer each time.
func (f *fetcher) pause(err error) {
	f.mu.Lock()
	f.lastErr = err
	f.mu.Unlock()
	if !f.svc.background.Sleep(f.backoff) {
		f.fail(background.ErrStopping)
	}
	f.backoff = min(2*f.backoff, maxBackoff)
}

// dry refills the list that gave too little and decides how to go on: at once,
// after a pause, or not at all. Callers get the first parts of a long segment
// while the others are still on their way.
func (f *fetcher) dry() {
	f.mu.Lock()
	waiting := len(f.waiters) > 0
	held := errors.Is(f.refillErr, errBusy) // and not a store that refused the lock
	f.mu.Unlock()
	if !waiting {
		f.refillSoon()
		return
	}
	err := f.refillNow(held && time.Since(f.since) > lockPatience, f.backoff)
	switch {
	case err == nil:
		f.backoff = min(2*f.backoff, maxBackoff)
	case errors.Is(err, model.ErrLimitReached):
		f.lastCall(f.limitReached())
	case errors.Is(err, model.ErrUnconfirmed):
		f.lastCall(fmt.Errorf("%w: %w", model.ErrQueueEmpty, err))
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

// A list in steady use is popped each popInterval, or more often where PrefetchMax bounds its
// pops. A pop for n indices that lasted an interval is followed by one for
// n × popInterval / interval: 64 lists at 32 000 requests a second together cost one pop for
// 125 IDs. A list with a caller a second costs one index a call.
//
// One interval says little about a list that is used by chance, so a pop is at most maxGrowth
// times as large as the one before, and after coldInterval the list starts again with one.
//
// The list is popped again when less than one part in fetchBelow of the distance is held, which
// lasts for 60 ms or more in steady use, some round trips to the store. So the distance is a
// third of a second's IDs, and a crash loses no more of a list in steady use.
const (
	fetchBelow   = 4
	popInterval  = 250 * time.Millisecond
	coldInterval = 500 * time.Millisecond
	maxGrowth    = 8
)

// demand follows how fast a list is used. Not safe for concurrent use.
type demand struct {
	ahead int // indices to hold beyond what callers wait for
	last  time.Time
}

// observe notes a pop at now; the distance becomes at most limit.
func (d *demand) observe(now time.Time, limit int) {
	interval := now.Sub(d.last)
	d.last = now
	if interval > coldInterval {
		d.ahead = 0
		return
	}
	n := int64(d.ahead) + 1 // what the pop before was for, with the caller it was made for
	next := min(n*int64(popInterval)/max(1, int64(interval)), maxGrowth*n)
	d.ahead = min(max(0, int(next)-1), limit)
}
