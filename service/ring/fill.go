package ring

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"shardid/model"
)

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
	r.settle()
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
	r.settle()
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
	r.settle()
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

// Stats counts since the ring was made.
type Stats struct {
	Taken     int64 // IDs handed out
	Discarded int64 // blocks that found no room
	Refused   int64 // takes, and tries of those who wait, that found too few IDs
	Cleared   int64 // IDs dropped by Clear
}

// Stats returns the counters; they are read one by one, not at one instant.
func (r *Ring) Stats() Stats {
	cleared := r.cleared.Load()
	return Stats{Taken: max(0, r.position()-cleared), Discarded: r.discarded.Load(), Refused: r.refused.Load(), Cleared: cleared}
}

// signal is for the take that went beyond the alarm.
func (r *Ring) signal() {
	r.mu.Lock()
	low := r.settle()
	r.mu.Unlock()
	if low {
		runtime.Gosched()
	}
}

// settle signals what is due and sets the alarm for what is not. A take that came
// too early for the new alarm is seen by looking again. Callers hold mu. It says
// whether it signalled Low.
func (r *Ring) settle() (low bool) {
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
		r.alarm.Store(r.tail.Load() - level)
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
