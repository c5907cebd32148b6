package segment

import "sync/atomic"

// Stats counts since the start of the process.
type Stats struct {
	Issued      int64 // IDs given to callers
	Loads       int64 // segments asked for
	FailedLoads int64 // those that failed, or whose answer was lost
	Waits       int64 // calls that had to wait for a segment
	Refused     int64 // calls that got none
	Wasted      int64 // IDs held and given up: the tag was removed, or the service stopped

	Repeated int64 // segments refused because IDs of them were handed out before: must stay 0
	Lifts    int64 // times max_id was below what had been handed out
}

// counters are those of the service; each tag counts itself what it issued.
type counters struct {
	loads, failedLoads, waits, refused, wasted, repeated, lifts atomic.Int64
}

// Stats returns the counters; they are read one by one, not at one instant.
func (s *Service) Stats() Stats {
	c := &s.stats
	out := Stats{
		Loads: c.loads.Load(), FailedLoads: c.failedLoads.Load(),
		Waits: c.waits.Load(), Refused: c.refused.Load(), Wasted: c.wasted.Load(),
		Repeated: c.repeated.Load(), Lifts: c.lifts.Load(),
	}
	if c := s.catalogue.Load(); c != nil {
		for _, t := range c.known {
			out.Issued += t.issuedSoFar()
		}
	}
	return out
}
