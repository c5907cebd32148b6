package background

import (
	"slices"
	"sync"
)

// Batcher runs Do over the things that were added, up to Max of them together and AtOnce batches side by
// side. What is added while it waits is not added again, but may come first; while it is being done, it is
// added. Safe for concurrent use.
type Batcher[T comparable] struct {
	Group       *Group // its stop ends the batches: what waits then is never done
	Max, AtOnce int
	Do          func([]T)

	mu      sync.Mutex
	waiting []T
	known   map[T]bool // what waits
	running int        // batches
}

// Add has one thing done soon; with first before what waits already.
func (b *Batcher[T]) Add(one T, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[one] {
		if !first {
			return
		}
		b.waiting = slices.DeleteFunc(b.waiting, func(other T) bool { return other == one })
	}
	if b.known == nil {
		b.known = map[T]bool{}
	}
	b.known[one] = true
	if first {
		b.waiting = append([]T{one}, b.waiting...)
	} else {
		b.waiting = append(b.waiting, one)
	}
	if b.running < b.AtOnce && b.Group.Go(b.run) {
		b.running++
	}
}

// run does what waits, until nothing does.
func (b *Batcher[T]) run() {
	for {
		b.mu.Lock()
		batch := b.waiting[:min(len(b.waiting), b.Max)]
		b.waiting = b.waiting[len(batch):]
		for _, one := range batch {
			delete(b.known, one)
		}
		if len(batch) == 0 {
			b.waiting = nil
			b.running--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.Do(batch)
	}
}
