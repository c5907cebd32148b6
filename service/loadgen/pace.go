package load

import (
	"context"
	"time"
)

// longestWait bounds how long the end of a run can go unnoticed by a slow pacer, ns.
const longestWait = int64(100 * time.Millisecond)

// pacer hands out the times at which requests are due.
type pacer struct {
	clock    clock
	interval float64 // ns
	due      chan int64
	alarm    *alarm
}

// run hands out times from begun to from, the warm-up, and from there to end, or
// until ctx ends; then it closes due. What the warm-up was late with is dropped, but
// of the rest none is skipped: those that nobody was free for are handed out late,
// with the time they were due. It gives the first that was due at last and that
// nobody took, and how many there were.
func (p *pacer) run(ctx context.Context, begun, from, end int64) (first, left int64) {
	defer close(p.due)
	warmUp, cancel := context.WithDeadline(ctx, p.clock.time(from))
	defer cancel()
	p.hand(warmUp, begun, from)
	return p.hand(ctx, from, end)
}

func (p *pacer) hand(ctx context.Context, from, end int64) (first, left int64) {
	for n := int64(0); ; n++ {
		at := from + int64(float64(n)*p.interval)
		if at >= end || !p.await(ctx, at) {
			return at, 0
		}
		select {
		case p.due <- at:
		case <-ctx.Done():
			return at, p.dueSince(at, end)
		}
	}
}

// await waits for a time; false means that ctx ended first.
func (p *pacer) await(ctx context.Context, at int64) bool {
	for ctx.Err() == nil {
		now := p.clock.now()
		if now >= at {
			return true
		}
		p.alarm.wait(at - now)
	}
	return p.clock.now() >= at
}

// dueSince is how many times are due from at, itself one of them, to now, which is
// no later than end.
func (p *pacer) dueSince(at, end int64) int64 {
	now := min(p.clock.now(), end-1)
	return int64(float64(now-at)/p.interval) + 1
}
