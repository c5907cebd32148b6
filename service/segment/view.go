package segment

import (
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"shardid/service/latency"
)

// View is what Leaf's /cache page and /api/status show of a tag; its JSON is that of
// both. Leaf keeps two buffers that take turns; further blocks are in Ahead.
type View struct {
	Name      string `json:"key"`
	Pattern   string `json:"pattern,omitempty"` // of its IDs as texts; the numbers below are then period<<bits + sequence
	InitOK    bool   `json:"initOk"`            // a segment was taken
	NextReady bool   `json:"nextReady"`         // the other buffer holds the next one
	Pos       int    `json:"pos"`               // the buffer in use, 0 or 1

	// The two buffers: next ID, length of the segment, and its end, not included.
	Value0 int64 `json:"value0"`
	Step0  int64 `json:"step0"`
	Max0   int64 `json:"max0"`
	Value1 int64 `json:"value1"`
	Step1  int64 `json:"step1"`
	Max1   int64 `json:"max1"`

	Ahead    int       `json:"ahead"`             // blocks that follow the one in use
	Held     int64     `json:"held"`              // IDs that can be issued without the database
	Rate     float64   `json:"rate"`              // IDs a second, the average of half a minute
	Runway   float64   `json:"runwaySeconds"`     // for which Held lasts at that rate, at most a year
	LastLoad time.Time `json:"lastLoad,omitzero"` // when the last segment was taken
}

// MarshalJSON adds the IDs as strings.
func (v View) MarshalJSON() ([]byte, error) {
	type plain View // without this method
	return json.Marshal(struct {
		plain
		Value0Str int64 `json:"value0Str,string"`
		Max0Str   int64 `json:"max0Str,string"`
		Value1Str int64 `json:"value1Str,string"`
		Max1Str   int64 `json:"max1Str,string"`
	}{plain(v), v.Value0, v.Max0, v.Value1, v.Max1})
}

// Status is the segment mode in /api/status.
type Status struct {
	Issued int64  `json:"issued"` // IDs since the start of the process
	Tags   []View `json:"tags"`   // never nil
}

// Status returns the counter and, as Views does, the tags.
func (s *Service) Status() Status {
	return Status{Issued: s.Stats().Issued, Tags: append([]View{}, s.Views()...)}
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
	if t.numbers != nil {
		v.Pattern = t.numbers.Pattern
	}
	first, second := t.current.Load(), t.other()
	if v.Pos == 1 {
		first, second = second, first
	}
	v.Value0, v.Step0, v.Max0 = first.first+first.used(), first.length, first.first+first.length
	v.Value1, v.Step1, v.Max1 = second.first+second.used(), second.length, second.first+second.length
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
	return newBlock(0, 0, 0)
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
