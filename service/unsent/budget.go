// Package unsent bounds the memory of answers that clients do not read.
package unsent

import (
	"container/list"
	"sync"
)

// Small is how many bytes an answer may hold without being counted, so that small ones cost
// nothing more: it is about what a connection costs anyway.
const Small = 8 << 10

// Budget is what all answers together may hold until they are sent. Make one with New; nil
// has no bound. Safe for concurrent use.
type Budget struct {
	most int // bytes

	mu      sync.Mutex
	room    sync.Cond // of mu: an answer holds nothing any more
	held    int       // bytes
	leaving int       // those of held whose answers were given up, which takes a moment
	waiting list.List // of the other *Answer, the one that waits longest first
	cut     int64
}

// Answer is what a client has been given and not taken yet. nil is one that is not counted.
type Answer struct {
	budget *Budget
	size   int
	end    func()
	at     *list.Element // nil once it was given up
	over   bool          // Release was called
}

// New makes a budget of so many bytes.
func New(most int) *Budget {
	b := &Budget{most: most}
	b.room.L = &b.mu
	return b
}

// Hold counts an answer of so many bytes until Release. When there is no room, those that wait
// longest are given up for it: end is called, which makes the answer's write fail, and Hold
// waits for their Release. end must not wait, and is not called after Release.
func (b *Budget) Hold(size int, end func()) *Answer {
	if b == nil || size <= Small {
		return nil
	}
	a := &Answer{budget: b, size: size, end: end}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.held > 0 && b.held+size > b.most {
		b.giveUp(size)
		b.room.Wait()
	}
	b.held += size
	a.at = b.waiting.PushBack(a)
	return a
}

// giveUp makes room for an answer, which is there once those that leave have left. Callers
// hold mu.
func (b *Budget) giveUp(size int) {
	for b.waiting.Len() > 0 && b.held-b.leaving+size > b.most {
		oldest, _ := b.waiting.Remove(b.waiting.Front()).(*Answer)
		oldest.at = nil
		b.leaving += oldest.size
		b.cut++
		oldest.end()
	}
}

// Progress notes that the client took a part.
func (a *Answer) Progress() {
	if a == nil {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.at != nil {
		a.budget.waiting.MoveToBack(a.at)
	}
}

// Release ends the counting: the answer has been sent, or its write has failed.
func (a *Answer) Release() {
	if a == nil {
		return
	}
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.over {
		return
	}
	a.over = true
	if b.held -= a.size; a.at == nil {
		b.leaving -= a.size
	} else {
		b.waiting.Remove(a.at)
	}
	b.room.Broadcast()
}

// Held is how many bytes are counted now, Cut how many answers were given up since the
// start.
func (b *Budget) Held() (bytes int, cut int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held, b.cut
}
