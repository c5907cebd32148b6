package background

import (
	"context"
	"slices"
	"sync"
)

// Waiters are callers that wait for IDs, in order. The zero value is empty. A mutex of
// the owner guards all methods but Await, which takes it.
type Waiters []*Waiter

// Waiter is a caller that waits for some IDs.
type Waiter struct {
	count int
	ids   []int64 // the caller's slice; count are appended when served
	err   error
	done  chan struct{}
}

// Add makes a caller wait for count IDs, which are to be appended to dst.
func (q *Waiters) Add(count int, dst []int64) *Waiter {
	w := &Waiter{count: count, ids: dst, done: make(chan struct{})}
	*q = append(*q, w)
	return w
}

// Await waits until w is served or failed. When ctx ends first, w leaves the queue with
// nothing, and the error is what gaveUp makes of the cause.
func (q *Waiters) Await(
	ctx context.Context, mu sync.Locker, w *Waiter, gaveUp func(cause error) error,
) ([]int64, error) {
	select {
	case <-w.done:
		return w.ids, w.err
	case <-ctx.Done():
	}
	mu.Lock()
	i := slices.Index(*q, w)
	if i < 0 { // served or failed meanwhile
		mu.Unlock()
		return w.ids, w.err
	}
	*q = slices.Delete(*q, i, i+1)
	mu.Unlock()
	return w.ids, gaveUp(context.Cause(ctx))
}

// Serve offers IDs to each waiter, in order. take appends count of them to dst, or
// returns false when there are too few; then the next waiter may need less.
func (q *Waiters) Serve(take func(count int, dst []int64) ([]int64, bool)) {
	*q = slices.DeleteFunc(*q, func(w *Waiter) (served bool) {
		if w.ids, served = take(w.count, w.ids); served {
			close(w.done)
		}
		return served
	})
}

// Fail ends the waiting of those for whose count hopeless is true, and says whether
// there were any.
func (q *Waiters) Fail(err error, hopeless func(count int) bool) bool {
	before := len(*q)
	*q = slices.DeleteFunc(*q, func(w *Waiter) bool {
		if !hopeless(w.count) {
			return false
		}
		w.err = err
		close(w.done)
		return true
	})
	return len(*q) < before
}

// FailAll ends all waiting.
func (q *Waiters) FailAll(err error) { q.Fail(err, func(int) bool { return true }) }

// Needed is how many IDs the waiters need, in all and the largest of them.
func (q *Waiters) Needed() (all, largest int) {
	for _, w := range *q {
		all += w.count
		largest = max(largest, w.count)
	}
	return all, largest
}
