package uid

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"shardid/model"
)

// cacheLine keeps what is written by different cores apart: 64 bytes on amd64, and
// two lines because its cores fetch lines in pairs.
const cacheLine = 128

// Ring is a bounded store of int64 IDs that are handed out in the order in which
// they were put, each once, however far the takers outrun the filler. All
// methods are safe for concurrent use.
//
// IDs are put as blocks of consecutive numbers. The ring is virtual: a block is
// kept as its first ID and a counter, so that putting costs the same for one ID
// and for a million, and taking is one atomic add.
//
// Who takes chooses what happens when too few IDs are left: Take and TakeN refuse,
// Wait waits. Both take all they were asked for or nothing. What one goroutine
// takes is in the order of the puts, also with batches in between.
//
// Who puts chooses what happens when the ring is full: Put discards the block and
// counts it, AwaitRoom waits first. The usual filler is one goroutine:
//
//	for {
//		for r.Put(next(), n) { … }
//		select {
//		case <-r.Low():
//		case <-ctx.Done():
//			return
//		}
//	}
//
// Low has a value when a take left fewer IDs than the low-water mark: once, until
// the next Put. It also has one when a caller found too little.
//
// An ID that has been taken cannot be put back; those of Clear are gone.
type Ring struct {
	_ [cacheLine]byte
	// Read by every take, written once in a block.
	head      atomic.Pointer[block]
	threshold atomic.Int64 // a take beyond this position has something to signal
	_         [cacheLine]byte

	size, lowWater int64
	low            chan struct{} // of one value
	tail           atomic.Int64  // position after the last ID; written under mu
	discarded      atomic.Int64
	refused        atomic.Int64
	cleared        atomic.Int64

	mu      sync.Mutex
	last    *block        // of the list that begins with head
	armed   bool          // Low is to be signalled
	filled  chan struct{} // closed by the next Put; nil when no caller waits for it
	room    chan struct{} // closed when there is room for roomFor; nil when no filler waits
	roomFor int64
}

// block is a run of consecutive IDs. Positions count the IDs since the ring was
// made.
type block struct {
	used atomic.Int64 // how many were taken, or more: a take that got none counted too
	_    [cacheLine]byte

	first, count int64
	base         int64  // position of the first
	next         *block // guarded by the ring's mu
}

// NewRing makes an empty ring of size IDs that signals when fewer than lowWater are
// left. The error is model.ErrInvalidArgument unless 1 ≤ lowWater ≤ size.
func NewRing(size, lowWater int64) (*Ring, error) {
	if lowWater < 1 || lowWater > size {
		return nil, fmt.Errorf("%w: ring of %d IDs with a low-water mark of %d", model.ErrInvalidArgument, size, lowWater)
	}
	r := &Ring{size: size, lowWater: lowWater, low: make(chan struct{}, 1), last: &block{}, armed: true}
	r.head.Store(r.last)
	return r, nil
}

// Take takes one ID; false means that the ring is empty.
func (r *Ring) Take() (int64, bool) {
	b := r.head.Load()
	n := b.used.Add(1)
	if n > b.count {
		return r.takeSlow()
	}
	if b.base+n > r.threshold.Load() {
		r.signal()
	}
	return b.first + n - 1, true
}

func (r *Ring) takeSlow() (int64, bool) {
	var one [1]int64
	ids, ok := r.takeAcross(1, one[:0])
	if !ok {
		return 0, false
	}
	return ids[0], true
}

// TakeN appends n IDs to dst, all or, with false, none. It takes as long for one as
// for many, beside writing them down.
func (r *Ring) TakeN(n int, dst []int64) ([]int64, bool) {
	b, count := r.head.Load(), int64(n)
	for used := b.used.Load(); n > 0 && used+count <= b.count; used = b.used.Load() {
		if !b.used.CompareAndSwap(used, used+count) {
			continue
		}
		if b.base+used+count > r.threshold.Load() {
			r.signal()
		}
		return appendRun(dst, b.first+used, count), true
	}
	return r.takeAcross(count, dst)
}

// takeAcross takes from as many blocks as it needs.
func (r *Ring) takeAcross(n int64, dst []int64) ([]int64, bool) {
	r.mu.Lock()
	dst, ok := r.takeLocked(n, dst)
	low := r.signalReaders()
	r.mu.Unlock()
	if !ok {
		if r.tail.Load() > 0 { // the first callers wait for the first fill
			r.refused.Add(1)
		}
		r.signalLow()
	}
	if low || !ok {
		runtime.Gosched() // the filler's turn, should all processors be busy taking
	}
	return dst, ok
}

// takeLocked claims what is left of the first block. No caller can take from the
// others before head shows them, which is once all is decided: what was claimed in
// vain becomes the first block again, and no caller has taken a later ID meanwhile.
// Callers hold mu.
func (r *Ring) takeLocked(n int64, dst []int64) ([]int64, bool) {
	head := r.head.Load()
	used, got := head.claimIDs(n)
	if n < 1 || got+r.tail.Load()-head.end() < n {
		if got > 0 {
			r.putBack(head, used, got)
		}
		return dst, n == 0
	}
	dst = appendRun(dst, head.first+used, got)
	b := head
	for got < n {
		b = b.next
		k := min(n-got, b.count)
		b.used.Store(k)
		dst = appendRun(dst, b.first, k)
		got += k
	}
	r.head.Store(b)
	return dst, true
}

// claimIDs takes up to n IDs of the block: got of them, after used others.
func (b *block) claimIDs(n int64) (used, got int64) {
	if n < 1 || b.used.Load() >= b.count {
		return b.count, 0
	}
	used = b.used.Add(n) - n
	return used, max(0, min(n, b.count-used))
}

// end is the position after the block.
func (b *block) end() int64 { return b.base + b.count }

// putBack makes the end of a used-up block the first one again. Callers hold mu.
func (r *Ring) putBack(b *block, used, count int64) {
	rest := &block{first: b.first + used, count: count, base: b.base + used, next: b.next}
	if r.last == b {
		r.last = rest
	}
	r.head.Store(rest)
}

func appendRun(dst []int64, first, count int64) []int64 {
	for id := first; id < first+count; id++ {
		dst = append(dst, id)
	}
	return dst
}

// Put appends the count IDs that begin with first: all of them or, when there is
// no room for all, none. Then it counts the block as discarded and returns false.
// A count below 1 is never put.
func (r *Ring) Put(first, count int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if count < 1 || count > r.size-r.left() {
		r.discarded.Add(1)
		return false
	}
	b := &block{first: first, count: count, base: r.tail.Load()}
	r.last.next, r.last = b, b
	r.tail.Add(count)
	if r.filled != nil {
		close(r.filled)
		r.filled = nil
	}
	r.armed = true
	r.signalReaders()
	return true
}

// Low has a value when fewer IDs than the low-water mark are left.
func (r *Ring) Low() <-chan struct{} { return r.low }

// AwaitRoom waits until a block of count IDs would find room. Only one goroutine
// may wait at a time: the filler. Errors: that of ctx, and model.ErrInvalidArgument
// when the ring is smaller.
func (r *Ring) AwaitRoom(ctx context.Context, count int64) error {
	if count > r.size {
		return fmt.Errorf("%w: %d IDs never fit into a ring of %d", model.ErrInvalidArgument, count, r.size)
	}
	room := r.expectRoom(count)
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Ring) expectRoom(count int64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := make(chan struct{})
	r.room, r.roomFor = room, count
	r.signalReaders()
	return room
}

// Wait is TakeN that waits for puts until ctx ends. Errors: the cause of ctx's end,
// and model.ErrInvalidArgument for more IDs than the ring has room for. A filler of
// whole blocks serves up to Cap less one block for sure; more than that are there
// only when the blocks happen to fill the ring.
func (r *Ring) Wait(ctx context.Context, n int, dst []int64) ([]int64, error) {
	if int64(n) > r.size || n < 0 {
		return dst, fmt.Errorf("%w: %d IDs at once from a ring of %d", model.ErrInvalidArgument, n, r.size)
	}
	for {
		if ids, ok := r.TakeN(n, dst); ok {
			return ids, nil
		}
		filled := r.expectPut()
		if ids, ok := r.TakeN(n, dst); ok { // put meanwhile
			return ids, nil
		}
		select {
		case <-filled:
		case <-ctx.Done():
			return dst, context.Cause(ctx)
		}
	}
}

// expectPut returns what the next Put closes.
func (r *Ring) expectPut() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.filled == nil {
		r.filled = make(chan struct{})
	}
	return r.filled
}

// Clear drops all IDs and returns how many.
func (r *Ring) Clear() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	head := r.head.Load()
	dropped := r.tail.Load() - head.base - min(head.used.Swap(head.count), head.count)
	r.last = &block{base: r.tail.Load()}
	r.head.Store(r.last)
	r.cleared.Add(dropped)
	r.armed = true
	r.signalReaders()
	return dropped
}

// Cap is how many IDs the ring has room for.
func (r *Ring) Cap() int64 { return r.size }

// Len is how many IDs are left, at a moment during the call.
func (r *Ring) Len() int64 { return min(r.left(), r.size) }

// left is Len; with mu held it can only have become less since.
func (r *Ring) left() int64 {
	position := r.position()
	return r.tail.Load() - position
}

// position is how many IDs were taken or cleared.
func (r *Ring) position() int64 {
	b := r.head.Load()
	return b.base + min(b.used.Load(), b.count)
}

// RingStats counts since the ring was made.
type RingStats struct {
	Taken     int64 // IDs handed out
	Discarded int64 // blocks that found no room
	Refused   int64 // takes, and tries of those who wait, that found too few IDs
	Cleared   int64 // IDs dropped by Clear
}

// Stats returns the counters; they are read one by one, not at one instant.
func (r *Ring) Stats() RingStats {
	cleared := r.cleared.Load()
	return RingStats{Taken: max(0, r.position()-cleared), Discarded: r.discarded.Load(), Refused: r.refused.Load(), Cleared: cleared}
}

// signal wakes the filler after a take that passed the threshold.
func (r *Ring) signal() {
	r.mu.Lock()
	low := r.signalReaders()
	r.mu.Unlock()
	if low {
		runtime.Gosched()
	}
}

// signalReaders signals what is due and sets the threshold for what is not. A take that came
// too early for the new threshold is seen by looking again. Callers hold mu. It says
// whether it signalled Low.
func (r *Ring) signalReaders() (low bool) {
	for {
		left := r.left()
		if r.armed && left < r.lowWater {
			r.armed, low = false, true
			r.signalLow()
		}
		if r.room != nil && left <= r.size-r.roomFor {
			close(r.room)
			r.room = nil
		}
		level := r.level()
		r.threshold.Store(r.tail.Load() - level)
		if r.left() >= level {
			return low
		}
	}
}

// level is how many IDs must be left for nothing to be signalled. Callers hold mu.
func (r *Ring) level() int64 {
	level := int64(math.MinInt64) / 2 // there are never so few
	if r.armed {
		level = r.lowWater
	}
	if r.room != nil {
		level = max(level, r.size-r.roomFor+1)
	}
	return level
}

func (r *Ring) signalLow() {
	select {
	case r.low <- struct{}{}:
	default:
	}
}
