package segment

import (
	"sync/atomic"

	"shardid/service/latency"
)

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
	Jumps    int64 // times nobody could tell how far the database went back
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
			out.Issued += t.issuedSoFar()
		}
	}
	return out
}
