package uid

import (
	"time"

	"shardid/client/idgen"
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
	RingSize   int64     `json:"ringSize"`   // IDs that the ring has room for
	RingFill   int64     `json:"ringFilled"` // IDs in it
	LastSecond time.Time `json:"lastSecond,omitzero"`
	// AheadSeconds is negative when LastSecond, the last that was filled, is behind.
	AheadSeconds int64 `json:"aheadSeconds"`

	// MarkedUntil is the last second that may be issued; the database holds it.
	MarkedUntil   time.Time `json:"markedUntil,omitzero"`
	RunwaySeconds int64     `json:"-"` // how long IDs can be issued at the present rate without the database
	// RemainingSeconds are left in the time bits. In cached mode they can be used faster than the clock goes.
	RemainingSeconds int64 `json:"remainingLifetimeSeconds"`
}

// Status returns the state; its parts are read one by one, not at one instant.
func (s *Service) Status() Status {
	now := s.second()
	out := Status{Mode: s.opts.Mode, WorkerID: -1, RemainingSeconds: remaining(s.opts.Layout, now)}
	if s.ring == nil {
		out.Issued, out.Dropped = s.clock.Issued.Load(), s.clock.Wasted.Load()
	} else {
		c := s.ring.pool.Counts()
		out.Issued, out.Dropped, out.Refused = c.Issued, c.Dropped, c.Waits
		out.RingSize, out.RingFill = s.ring.size, c.Held
	}
	t := s.term.Load()
	if t == nil {
		return out
	}
	out.WorkerID, out.NodeID = s.firstWorker()+t.node, t.node
	if s.ring != nil && s.ring.last.Load() > 0 {
		last := s.ring.last.Load()
		out.LastSecond, out.AheadSeconds = time.Unix(last, 0).UTC(), last-now
	}
	mark, position := t.mark.Load(), s.position(t)
	if mark > 0 {
		out.MarkedUntil = time.Unix(mark, 0).UTC()
	}
	out.RunwaySeconds = max(0, mark-position) / t.rate.Load()
	out.RemainingSeconds = remaining(s.opts.Layout, position)
	return out
}

// remaining is how many seconds after one are left in the time bits.
func remaining(l idgen.Layout, second int64) int64 {
	return max(0, l.MaxTime()-max(second, l.Epoch))
}
