package segment

import (
	"maps"
	"slices"
	"time"
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
