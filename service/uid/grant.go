package uid

import (
	"fmt"
	"sync/atomic"

	"shardid/model"
)

// How far ahead the mark is kept, in seconds of the IDs' time: enough for an hour
// by the clock, and for ten minutes at the rate at which IDs were used last. Twice
// that is asked for when half is used, so that it is never less while the database
// answers.
const (
	markHour = 3600
	markRate = 600
)

// grant is what one node may issue. Safe for concurrent use.
type grant struct {
	layout model.UIDLayout
	node   model.Node
	after  int64 // IDs carry a later second than this

	mark atomic.Int64 // IDs carry at most this second; it is durable
	lead atomic.Int64 // of the mark, in seconds, when it was raised last
	rate atomic.Int64 // seconds of the IDs' time used in a second, at least 1

	// last is, in cached mode, the last second put into the ring, 0 before the
	// first. Only the filler writes it.
	last atomic.Int64
	// state is, in default mode, the last ID: seconds since the epoch, and the
	// sequence number in the low bits. It only rises.
	state atomic.Int64

	fillErr atomic.Pointer[error] // why the ring cannot be filled; nil when it can
	markErr atomic.Pointer[error] // how the last attempt to raise the mark failed; nil when it went well
	raised  chan struct{}         // of one value: the mark was raised
	due     chan struct{}         // of one value: the mark is to be raised
}

// newGrant is for a node that was registered by start.
func newGrant(layout model.UIDLayout, start model.NodeStart, node model.Node) *grant {
	g := &grant{layout: layout, node: node, after: node.AfterSecond, raised: make(chan struct{}, 1), due: make(chan struct{}, 1)}
	if node.Recycled { // its mark was below the clock of the start
		g.after = max(g.after, start.NowSecond-1)
	}
	g.mark.Store(start.MarkSecond)
	g.lead.Store(2 * markHour)
	g.rate.Store(1)
	used := min(max(g.after-layout.Epoch.Unix(), -1), layout.MaxSecond()-layout.Epoch.Unix())
	g.state.Store((used+1)<<layout.SeqBits - 1) // the last ID of that second
	return g
}

// second says whether IDs of a Unix second may be issued. Errors:
// model.ErrTimeExhausted, and ErrNoLease when the mark is used up.
func (g *grant) second(second int64) (int64, error) {
	if err := g.layout.CheckSecond(second); err != nil {
		return 0, err
	}
	if g.halfUsed(second) {
		poke(g.due)
	}
	if mark := g.mark.Load(); second > mark {
		return 0, g.beyond(second, mark)
	}
	return second, nil
}

// beyond explains a mark that is used up.
func (g *grant) beyond(second, mark int64) error {
	if err := g.markErr.Load(); err != nil {
		return fmt.Errorf("%w: the database is away and what it granted is used up: second %d is beyond the mark %d: %w", model.ErrNoLease, second, mark, *err)
	}
	return fmt.Errorf("%w: second %d is beyond the mark %d, which is being raised", model.ErrNoLease, second, mark)
}

// position is the second that the mark must stay ahead of: the last one used, and
// the clock's where that comes next.
func (g *grant) position(now int64, byClock bool) int64 {
	if last := g.last.Load(); last > 0 && !byClock {
		return last
	}
	issued := g.state.Load()>>g.layout.SeqBits + g.layout.Epoch.Unix()
	return max(g.last.Load(), issued, now)
}

// target is how far to raise the mark from a position.
func (g *grant) target(position int64) int64 {
	lead := 2 * max(markHour, markRate*g.rate.Load())
	return max(g.mark.Load(), min(position+lead, g.layout.MaxSecond()))
}

// halfUsed says whether the mark is due to be raised.
func (g *grant) halfUsed(position int64) bool {
	mark := g.mark.Load()
	return mark-position < g.lead.Load()/2 && mark < g.layout.MaxSecond()
}

// poke puts the value into a channel of one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
