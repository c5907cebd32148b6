package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shardid/model"
)

// waiter is a caller that waits for n IDs.
type waiter struct {
	n    int64
	ids  []int64 // the caller's slice; n are appended when served
	err  error
	done chan struct{}
}

// take takes n IDs from what is held or waits for a segment. The caller's
// context or the timeout ends it.
func (t *Tag) take(ctx context.Context, n int64, dst []int64) ([]int64, error) {
	ids, w, err := t.takeOrQueue(n, dst)
	if w != nil {
		ids, err = t.await(ctx, w, dst)
	}
	if err != nil {
		t.svc.stats.refused.Add(1)
		if errors.Is(err, model.ErrSegmentEmpty) {
			t.svc.stats.starved.Add(1)
		}
		return dst, err
	}
	return ids, nil
}

// takeOrQueue takes n IDs, says why there never will be any, or makes the caller
// wait for them.
func (t *Tag) takeOrQueue(n int64, dst []int64) ([]int64, *waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ids, ok := t.grab(n, dst); ok {
		if t.wanted(time.Now()) {
			t.startLoad()
		}
		return ids, nil, nil
	}
	if err := t.refusal(time.Now()); err != nil {
		return dst, nil, err
	}
	w := &waiter{n: n, ids: dst, done: make(chan struct{})}
	t.waiters = append(t.waiters, w)
	t.svc.stats.waits.Add(1)
	t.startLoad()
	return dst, w, nil
}

// refusal is why waiting is of no use, or nil. Callers hold mu.
func (t *Tag) refusal(now time.Time) error {
	if t.closed == nil && now.Before(t.refusedUntil) {
		return t.refused
	}
	return t.closed
}

// await waits until w is served. What a waiter did not get it has not taken.
func (t *Tag) await(ctx context.Context, w *waiter, dst []int64) ([]int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.svc.opts.Timeout, model.ErrSegmentEmpty)
	defer cancel()
	select {
	case <-w.done:
	case <-ctx.Done():
		if t.leave(w) {
			return dst, t.gaveUp(context.Cause(ctx))
		}
		<-w.done
	}
	if w.err != nil {
		return dst, w.err
	}
	return w.ids, nil
}

// gaveUp explains why a waiter that ran out of time was not served.
func (t *Tag) gaveUp(cause error) error {
	if !errors.Is(cause, model.ErrSegmentEmpty) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.lastErr
	if err == nil {
		err = errors.New("the database has not answered yet")
	}
	return fmt.Errorf("%w: tag %q got no segment in time, try again: %w", model.ErrSegmentEmpty, t.name, err)
}

// leave takes a waiter out of the queue; false means that it was served.
func (t *Tag) leave(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiters, w)
	if i < 0 {
		return false
	}
	t.waiters = slices.Delete(t.waiters, i, i+1)
	return true
}

// serve hands out what is held to those waiters, in order, whom it suffices.
// Callers hold mu.
func (t *Tag) serve() {
	t.waiters = slices.DeleteFunc(t.waiters, func(w *waiter) bool {
		ids, ok := t.grab(w.n, w.ids)
		if !ok {
			return false
		}
		w.ids = ids
		close(w.done)
		return true
	})
}

// failLocked ends all waiting with err. Callers hold mu.
func (t *Tag) failLocked(err error) {
	for _, w := range t.waiters {
		w.err = err
		close(w.done)
	}
	clear(t.waiters)
	t.waiters = t.waiters[:0]
}

// needed is how many IDs those who wait need, in all and the largest of them.
// Callers hold mu.
func (t *Tag) needed() (all, largest int64) {
	for _, w := range t.waiters {
		all += w.n
		largest = max(largest, w.n)
	}
	return all, largest
}
