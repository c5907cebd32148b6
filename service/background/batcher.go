package background

import (
	"slices"
	"sync"
)

// Batcher runs Do over the things that were added, up to Max of them together and AtOnce batches side by
// side. What is added while it waits is not added again, but may move to those that come first; while it is being
// done, it is added. Safe for concurrent use.
type Batcher[T comparable] struct {
	Group       *Group // its stop ends the batches: what waits then is never done
	Max, AtOnce int
	Do          func([]T)

	mu          sync.Mutex
	first, rest []T        // what waits, each in the order in which it came
	known       map[T]bool // what waits: whether it is among the first
	running     int        // batches
}

// Add has one thing done soon; with first before what waits and was added without.
func (b *Batcher[T]) Add(one T, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isFirst, waits := b.known[one]
	if waits && (isFirst || !first) {
		return
	}
	if waits {
		b.rest = slices.DeleteFunc(b.rest, func(other T) bool { return other == one })
	}
	if b.known == nil {
		b.known = map[T]bool{}
	}
	if b.known[one] = first; first {
		b.first = append(b.first, one)
	} else {
		b.rest = append(b.rest, one)
	}
	if b.running < b.AtOnce && b.Group.Go(b.run) {
		b.running++
	}
}

// run does what waits, until nothing does.
func (b *Batcher[T]) run() {
	for {
		b.mu.Lock()
		batch := make([]T, 0, min(len(b.known), b.Max))
		for _, from := range []*[]T{&b.first, &b.rest} {
			n := min(len(*from), b.Max-len(batch))
			batch, *from = append(batch, (*from)[:n]...), (*from)[n:]
		}
		for _, one := range batch {
			delete(b.known, one)
		}
		if len(batch) == 0 {
			b.first, b.rest = nil, nil
			b.running--
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		b.Do(batch)
	}
}
