package queue

import "sync/atomic"

// Stats counts since the start of the process.
type Stats struct {
	Issued  int64 // IDs given to callers
	Pops    int64 // pops sent to the lists
	Refills int64 // segments pushed

	// Indices of segments that were allocated and not pushed for sure, by reason.
	Discarded Discarded
	Purges    int64 // lists dropped because they were of an earlier history
	Purged    int64 // indices in them
	OverLimit int64 // indices popped above the app's limit and dropped
	Dropped   int64 // indices held by this process and given up

	Repeated   int64 // indices refused because the list gave them before: must stay 0
	Lifts      int64 // times max_id was below what had been handed out
	LiftAlarms int64 // those by more than Options.LiftAlarm
	Jumps      int64 // times nobody could tell how far the database went back
	Jumped     int64 // indices left out for it
}

// Discarded counts indices by the reason for which their segments were given up.
type Discarded struct {
	History   int64 // the lists' history changed meanwhile
	HighWater int64 // the list had seen higher ones
	Full      int64 // somebody else had filled the list
	Failed    int64 // the push failed, or its answer was lost
}

// counters are those of the service; issued is of lists that are closed, as each
// list counts its own under the lock it holds anyway.
type counters struct {
	issued, pops, refills                                                atomic.Int64
	discardedHistory, discardedHighWater, discardedFull, discardedFailed atomic.Int64
	purgedLists, purged, overLimit, dropped                              atomic.Int64
	repeated, lifts, liftAlarms, jumps, jumped                           atomic.Int64
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
		Discarded: Discarded{
			History: c.discardedHistory.Load(), HighWater: c.discardedHighWater.Load(),
			Full: c.discardedFull.Load(), Failed: c.discardedFailed.Load(),
		},
		Purges: c.purgedLists.Load(), Purged: c.purged.Load(), OverLimit: c.overLimit.Load(), Dropped: c.dropped.Load(),
		Repeated: c.repeated.Load(), Lifts: c.lifts.Load(), LiftAlarms: c.liftAlarms.Load(),
		Jumps: c.jumps.Load(), Jumped: c.jumped.Load(),
	}
}
