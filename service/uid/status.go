package uid

import (
	"time"

	"shardid/model"
)

// Status is how the generator is doing; its JSON is that of /api/status.
type Status struct {
	// These count since the start of the process.
	Issued  int64 `json:"issued"` // to callers
	Dropped int64 `json:"-"`      // of incomplete batches and of rings: gaps
	Refused int64 `json:"-"`      // takes that found too little in the ring

	Mode     string `json:"mode"`
	WorkerID int64  `json:"workerId"` // -1 without one
	NodeID   int64  `json:"nodeId"`   // the row in WORKER_NODE; 0 while none is held

	// For cached mode, else 0.
	RingSize   int64  `json:"ringSize"`   // IDs that the ring has room for
	RingFill   int64  `json:"ringFilled"` // IDs in it
	LastSecond Second `json:"lastSecond,omitzero"`
	// AheadSeconds is negative when LastSecond, the last that was filled, is behind.
	AheadSeconds int64 `json:"aheadSeconds"`

	// MarkedUntil is the last second that may be issued; the database holds it.
	MarkedUntil   Second `json:"markedUntil,omitzero"`
	RunwaySeconds int64  `json:"-"` // how long IDs can be issued at the present rate without the database
	// RemainingSeconds are left in the time bits. In cached mode they can be used faster than the clock goes.
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
	now, position := s.second(), s.position()
	out := Status{Issued: s.issued.Load(), Dropped: s.dropped.Load(), Mode: s.opts.Mode, WorkerID: -1,
		RemainingSeconds: remaining(s.opts.Layout, now)}
	if s.ring != nil {
		c := s.ring.counts()
		out.Issued, out.Dropped, out.Refused = c.Issued, c.Dropped, c.Waits
		out.RingSize, out.RingFill = s.ring.size, c.Held
	}
	t := s.term.Load()
	if t == nil {
		return out
	}
	from, _ := s.opts.Region.Workers(s.opts.Layout.WorkerBits)
	out.WorkerID, out.NodeID = from+t.node, t.node
	if s.ring != nil && s.ring.last.Load() > 0 {
		out.LastSecond = Second(s.ring.last.Load())
		out.AheadSeconds = int64(out.LastSecond) - now
	}
	mark := t.mark.Load()
	out.MarkedUntil, out.RunwaySeconds = Second(mark), max(0, mark-position)/t.rate.Load()
	out.RemainingSeconds = remaining(s.opts.Layout, position)
	return out
}

// remaining is how many seconds after one are left in the time bits.
func remaining(l model.UIDLayout, second int64) int64 {
	return max(0, l.MaxSecond()-max(second, l.MinSecond()-1))
}
