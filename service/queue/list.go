package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"shardid/model"
)

// list is what this replica holds of one list of the store: IDs taken ahead of
// demand, and the callers that wait for more.
type list struct {
	svc *Service
	key model.ListKey

	mu      sync.Mutex
	cfg     model.ListConfig
	step    int64 // length of the last segment, in indices; the low watermark is a share of it
	slow    bool  // pushing it took so long that the next should not be longer
	ids     []int64
	head    int // ids[head:] are not issued yet
	waiters []*waiter
	demand  demand
	issued  int64
	refills int64 // segments pushed by this process
	depth   int64 // indices in the store, as seen last; -1 is unknown
	closed  error // why the list is used no more; nil while it is

	fetching bool          // a goroutine pops on behalf of the waiters
	refill   chan struct{} // closed when the refill in flight ends; nil when none is
	// refillErr is how the last refill ended.
	refillErr  error
	soon       bool          // a refill in the background is due
	retryAt    time.Time     // until then the low watermark causes none
	pauseUntil time.Time     // until then no segment is asked for; refillErr says why
	pauseFor   time.Duration // the latest one after a push that failed; 0 since one went well
	lost       float64       // by failed pushes, in budgets of an hour, at lostAt
	lostAt     time.Time
	narrow     int64     // length of the last segment while the list is narrow, without what callers waited for
	asked      time.Time // when that was
	lastErr    error     // why waiters are not served; nil when the last pop went well

	// history and highest are the tripwire: within one history indices only
	// rise, so one at or below highest was given out before.
	history string
	highest int64
	popped  int64  // indices popped in this history since the last refill
	known   int64  // highest index this process knows to be handed out
	seen    string // the history in which the store was seen last; "" before
}

// waiter is a caller that waits for n IDs.
type waiter struct {
	n    int
	ids  []int64 // the caller's slice; n are appended when served
	err  error
	done chan struct{}
}

func newList(svc *Service, cfg model.ListConfig) *list {
	l := &list{svc: svc, key: cfg.Key, depth: -1}
	l.configure(cfg)
	return l
}

// configure takes over a new configuration.
func (l *list) configure(cfg model.ListConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cfg.Limit != l.cfg.Limit {
		l.limitChanged(cfg.Limit)
	}
	l.cfg = cfg
	l.step = max(cfg.Step, cfg.CurrentStep, 1)
	l.known = max(l.known, cfg.MaxID)
}

// limitChanged gives up the held IDs that another limit does not allow; those
// folded by wrap, before or from now on, do not tell. Callers hold mu.
func (l *list) limitChanged(limit model.Limit) {
	l.pauseUntil = time.Time{}
	if limit.Policy == model.LimitWrap || l.cfg.Limit.Policy == model.LimitWrap {
		l.drop()
		return
	}
	kept := l.ids[l.head:]
	if limit.MaxID != 0 {
		n := sort.Search(len(kept), func(i int) bool { return kept[i] > limit.MaxID }) // they rise
		l.svc.stats.dropped.Add(int64(len(kept) - n))
		kept = kept[:n]
	}
	l.ids, l.head = kept, 0
}

// unsettled says whether the list and its row, as last read, should be told of each
// other: the row has less than is known to be handed out (a segment taken meanwhile
// looks the same), or is doubted while the list can vouch for it, or the list's mark
// covers it no more. Nothing is known of a list that was never used.
func (l *list) unsettled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == "" || l.known == 0 {
		return false
	}
	return l.known > l.cfg.MaxID || (l.seen == l.cfg.History) == (l.cfg.Doubt > 0)
}

// saw notes what the store says.
func (l *list) saw(st model.ListState) {
	l.svc.purged(l.key, st.Purged)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = max(l.known, st.HighWater)
	l.seen, l.depth = st.History, st.Len
}

// drop gives up the IDs that are held. Callers hold mu.
func (l *list) drop() {
	l.svc.stats.dropped.Add(int64(l.held()))
	l.ids, l.head = nil, 0
}

func (l *list) held() int { return len(l.ids) - l.head }

// give moves n held IDs to dst. Callers hold mu and have checked held.
func (l *list) give(n int, dst []int64) []int64 {
	dst = append(dst, l.ids[l.head:l.head+n]...)
	l.head += n
	l.issued += int64(n)
	if l.head == len(l.ids) {
		l.ids, l.head = l.ids[:0], 0
		if cap(l.ids) > 2*l.svc.opts.PrefetchMax { // left by a large batch
			l.ids = nil
		}
	}
	return dst
}

// tryTake takes n IDs if so many are held, and fetches more in time.
func (l *list) tryTake(n int, dst []int64) ([]int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held() < n {
		return dst, false
	}
	dst = l.give(n, dst)
	if 2*l.held() < l.ahead() {
		l.startFetch()
	}
	return dst, true
}

// await waits for n IDs. The caller's context or the timeout ends it.
func (l *list) await(ctx context.Context, n int, dst []int64) ([]int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.svc.opts.Timeout, model.ErrQueueEmpty)
	defer cancel()
	w := &waiter{n: n, ids: dst, done: make(chan struct{})}
	l.enqueue(w)
	select {
	case <-w.done:
	case <-ctx.Done():
		if l.leave(w) {
			return dst, l.gaveUp(context.Cause(ctx))
		}
		<-w.done
	}
	if w.err != nil {
		return dst, w.err
	}
	return w.ids, nil
}

// gaveUp explains why a waiter that ran out of time was not served.
func (l *list) gaveUp(cause error) error {
	if !errors.Is(cause, model.ErrQueueEmpty) {
		return cause
	}
	l.svc.stats.starved.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.lastErr
	if err == nil {
		err = errors.New("the stores have not answered yet")
	}
	return fmt.Errorf("%w: list %s gave nothing within %v, try again: %w", cause, l.key, l.svc.opts.Timeout, err)
}

func (l *list) enqueue(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters = append(l.waiters, w)
	l.serve()
	if len(l.waiters) > 0 {
		l.startFetch()
	}
}

// leave takes a waiter out of the queue; false means that it was served.
func (l *list) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiters, w)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	return true
}

// serve hands out what is held to those waiters, in order, whom it suffices.
// Callers hold mu.
func (l *list) serve() {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if l.held() < w.n {
			return false
		}
		w.ids = l.give(w.n, w.ids)
		close(w.done)
		return true
	})
}

// fail ends all waiting with err.
func (l *list) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(err)
}

func (l *list) failLocked(err error) {
	for _, w := range l.waiters {
		w.err = err
		close(w.done)
	}
	clear(l.waiters)
	l.waiters = l.waiters[:0]
}

// close ends the list: its app was removed (err is model.ErrUnknownApp), or the
// service stops. What it holds is dropped and counted.
func (l *list) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = err
	l.drop()
	l.failLocked(err)
	l.svc.stats.issued.Add(l.issued)
	l.issued = 0
}

// isLow says whether a list of that length is due for a refill.
func (l *list) isLow(length int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isLowLocked(length)
}

func (l *list) isLowLocked(length int64) bool {
	step := l.step
	if model.Narrow(l.left()) {
		step = min(step, max(l.narrow, 1))
	}
	return float64(length) <= l.svc.opts.LowWatermark*float64(step)
}

// isDry says whether nothing is held and the store had nothing when last seen.
func (l *list) isDry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held() == 0 && l.depth == 0
}

// measured notes how many indices the store held a moment ago; -1 is unknown.
func (l *list) measured(depth int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.depth = depth
}

// soFar is how many IDs callers got, and how many are held for them.
func (l *list) soFar() (issued, held int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.issued, int64(l.held())
}
