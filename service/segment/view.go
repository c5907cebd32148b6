package segment

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"shardid/service/latency"
)

// View is what Leaf's /cache page and the status show of a tag. Leaf keeps two
// buffers that take turns; further blocks are in Ahead.
type View struct {
	Name      string
	InitOK    bool // a segment was taken
	NextReady bool // the other buffer holds the next one
	Pos       int  // the buffer in use, 0 or 1
	Buffers   [2]Buffer

	Ahead    int       // blocks that follow the one in use
	Held     int64     // IDs that can be issued without the database
	Rate     float64   // IDs a second, the average of half a minute
	Runway   float64   // seconds for which Held lasts at that rate, at most a year
	LastLoad time.Time // when the last segment was taken; zero before the first
}

// Buffer is one of Leaf's SegmentBufferView.
type Buffer struct {
	Value int64 // the next ID
	Step  int64 // length of the segment
	Max   int64 // its end, not included
}

// Views returns the tags that exist, by name. Each is read at one instant.
func (s *Service) Views() []View {
	c := s.catalogue.Load()
	if c == nil {
		return nil
	}
	views := make([]View, 0, len(c.live))
	for _, name := range slices.Sorted(maps.Keys(c.live)) {
		views = append(views, c.live[name].view())
	}
	return views
}

func (t *Tag) view() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.held()
	v := View{
		Name: t.name, InitOK: t.loads > 0, NextReady: len(t.ahead) > 0, Pos: int(t.switches % 2),
		Ahead: len(t.ahead), Held: held, Rate: t.demand.perSecond(),
		Runway: t.demand.runway(held).Seconds(), LastLoad: t.step.at,
	}
	v.Buffers[v.Pos] = t.current.Load().view()
	v.Buffers[1-v.Pos] = t.other().view()
	return v
}

// other is the buffer that is not in use: the next block, or else the one before.
// Callers hold mu.
func (t *Tag) other() *block {
	switch {
	case len(t.ahead) > 0:
		return t.ahead[0]
	case t.previous != nil:
		return t.previous
	}
	return newBlock(0, 0)
}

func (b *block) view() Buffer {
	return Buffer{Value: b.first + b.used(), Step: b.length, Max: b.first + b.length}
}

// Stats counts since the start of the process.
type Stats struct {
	Issued      int64 // IDs given to callers
	Loads       int64 // segments asked for
	FailedLoads int64 // those that failed, or whose answer was lost
	Waits       int64 // calls that had to wait for a segment
	Refused     int64 // calls that got none
	Starved     int64 // those of them that got ErrSegmentEmpty
	Wasted      int64 // IDs held and given up: the tag was removed, or the service stopped
	// LoadTimes is how long each load took, a failed one too.
	LoadTimes latency.Reading

	Repeated int64 // segments refused because IDs of them were handed out before: must stay 0
	Lifts    int64 // times max_id was below what had been handed out
	Jumps    int64 // times the database went back by an unknown amount
	Jumped   int64 // IDs left out for it
}

// counters are those of the service; each tag counts itself what it issued.
type counters struct {
	loads, failedLoads, waits, refused, starved, wasted, repeated, lifts, jumps, jumped atomic.Int64
	loadTimes                                                                           latency.Histogram
}

// Stats returns the counters; they are read one by one, not at one instant.
func (s *Service) Stats() Stats {
	c := &s.stats
	out := Stats{
		Loads: c.loads.Load(), FailedLoads: c.failedLoads.Load(),
		Waits: c.waits.Load(), Refused: c.refused.Load(), Starved: c.starved.Load(), Wasted: c.wasted.Load(),
		Repeated: c.repeated.Load(), Lifts: c.lifts.Load(), Jumps: c.jumps.Load(), Jumped: c.jumped.Load(), LoadTimes: c.loadTimes.Read(),
	}
	if c := s.catalogue.Load(); c != nil {
		for _, t := range c.known {
			t.mu.Lock()
			out.Issued += t.issuedLocked()
			t.mu.Unlock()
		}
	}
	return out
}
