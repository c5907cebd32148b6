package queue

import "sync/atomic"

// Stats counts since the start of the process.
type Stats struct {
	Issued    int64 // IDs given to callers
	Pops      int64 // pops sent to the lists
	Refills   int64 // segments pushed
	Discarded int64 // indices of segments that were allocated and not pushed for sure
	Purged    int64 // indices dropped because their list was of an earlier history
	OverLimit int64 // indices popped above the app's limit and dropped
	Repeated  int64 // indices refused because the list gave them before: must stay 0
	Lifts     int64 // allocations that found max_id below what was handed out
	Dropped   int64 // indices held by this process and given up
}

// counters are those of the service; issued is of lists that are closed, as each
// list counts its own under the lock it holds anyway.
type counters struct {
	issued, pops, refills, discarded, purged, overLimit, repeated, lifts, dropped atomic.Int64
}

// Stats returns the counters; they are read one by one, not at one instant.
func (s *Service) Stats() Stats {
	c := &s.stats
	issued := c.issued.Load()
	if catalogue := s.catalogue.Load(); catalogue != nil {
		for _, l := range catalogue.all() {
			issued += l.issuedSoFar()
		}
	}
	return Stats{
		Issued: issued, Pops: c.pops.Load(), Refills: c.refills.Load(),
		Discarded: c.discarded.Load(), Purged: c.purged.Load(), OverLimit: c.overLimit.Load(),
		Repeated: c.repeated.Load(), Lifts: c.lifts.Load(), Dropped: c.dropped.Load(),
	}
}
