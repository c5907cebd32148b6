package uid

import (
	"log/slog"
	"sync/atomic"
	"time"

	"shardid/model"
)

// Status is how the generator is doing; its JSON is that of /api/status.
type Status struct {
	Issued   int64  `json:"issued"` // IDs since the start of the process
	Mode     string `json:"mode"`
	WorkerID int64  `json:"workerId"` // -1 while no node is held
	NodeID   int64  `json:"nodeId"`   // the row in WORKER_NODE; 0 while none is held
	Recycled bool   `json:"-"`        // another start had the worker ID before

	// For cached mode, else 0.
	RingSize   int64  `json:"ringSize"`   // IDs that the ring has room for
	RingFill   int64  `json:"ringFilled"` // IDs in the ring
	Discarded  int64  `json:"discarded"`  // puts that found the ring full
	LastSecond Second `json:"lastSecond,omitzero"`
	// AheadSeconds is how far LastSecond, the last that was filled, is ahead of the
	// clock; negative when it is behind.
	AheadSeconds int64 `json:"aheadSeconds"`

	// MarkedUntil is the last second that may be issued; the database holds it.
	MarkedUntil Second `json:"markedUntil,omitzero"`
	// RunwaySeconds is how long the mark lasts at the present rate of use, should
	// the database go away.
	RunwaySeconds int64 `json:"-"`
	// RunwayKept is how long that is at least while the database answers.
	RunwayKept int64 `json:"-"`
	// RemainingSeconds is how many seconds are left in the time bits. In cached
	// mode they can be used faster than the clock goes.
	RemainingSeconds int64 `json:"remainingLifetimeSeconds"`
}

// Second is the time of an ID in Unix seconds; in JSON it is a date.
type Second int64

// MarshalJSON implements json.Marshaler.
func (s Second) MarshalJSON() ([]byte, error) { return time.Unix(int64(s), 0).UTC().MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Second) UnmarshalJSON(text []byte) error {
	var t time.Time
	err := t.UnmarshalJSON(text)
	*s = Second(t.Unix())
	return err
}

// Status returns the state; its parts are read one by one, not at one instant.
func (s *Service) Status() Status {
	now := s.opts.Now().Unix()
	out := Status{
		Issued: s.Stats().Issued, Mode: s.opts.Mode, WorkerID: -1, RemainingSeconds: remaining(s.opts.Layout, now),
	}
	if s.ring != nil {
		out.RingSize, out.RingFill, out.Discarded = s.ring.Cap(), s.ring.Len(), s.ring.Stats().Discarded
	}
	g := s.grant.Load()
	if g == nil {
		return out
	}
	out.WorkerID, out.NodeID, out.Recycled = g.node.WorkerID, g.node.ID, g.node.Recycled
	if last := g.last.Load(); last > 0 {
		out.LastSecond, out.AheadSeconds = Second(last), last-now
	}
	position := g.position(now, s.byClock())
	mark := g.mark.Load()
	out.MarkedUntil, out.RunwaySeconds = Second(mark), max(0, mark-position)/g.rate.Load()
	out.RunwayKept = g.lead.Load() / 2 / g.rate.Load()
	out.RemainingSeconds = remaining(s.opts.Layout, position)
	return out
}

// remaining is how many seconds after one are left in the time bits.
func remaining(l model.UIDLayout, second int64) int64 {
	return max(0, l.MaxSecond()-max(second, l.MinSecond()-1))
}

// Stats counts since the start of the process.
type Stats struct {
	Issued    int64 // IDs given to callers
	Dropped   int64 // IDs that are gaps: of batches that could not be completed, and of rings given up
	Discarded int64 // puts that found the ring full
	Refused   int64 // takes that found too little in the ring
	Nodes     int64 // worker IDs got
}

// counters are those that the ring does not keep.
type counters struct{ issued, dropped, nodes atomic.Int64 }

// Stats returns the counters; they are read one by one, not at one instant.
func (s *Service) Stats() Stats {
	out := Stats{Issued: s.stats.issued.Load(), Dropped: s.stats.dropped.Load(), Nodes: s.stats.nodes.Load()}
	if s.ring != nil {
		r := s.ring.Stats()
		out.Issued = max(0, r.Taken-out.Dropped)
		out.Dropped += r.Cleared
		out.Discarded, out.Refused = r.Discarded, r.Refused
	}
	return out
}

// lifetime warns of time bits that run out, once below 10 % of them and once below 1 %. Only the
// keeper uses it.
type lifetime struct{ warned int }

// check warns when few seconds are left after one.
func (l *lifetime) check(log *slog.Logger, layout model.UIDLayout, second int64) {
	left := remaining(layout, second)
	percent := 100 * float64(left) / float64(layout.MaxSecond()-layout.Epoch.Unix()+1)
	below := 0
	for _, share := range []float64{10, 1} {
		if percent < share {
			below++
		}
	}
	if below > l.warned {
		l.warned = below
		log.Warn("the time bits of UIDs run out: plan a layout with more of them or a later epoch, on another database",
			"seconds_left", left, "percent_left", percent)
	}
}
