package queue

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"shardid/model"
)

// Stats counts since the start of the process, as the metrics of the tags do.
type Stats struct {
	Issued  int64 `metric:"shardid_queue_issued_total" help:"IDs given to callers."`
	Pops    int64 `metric:"shardid_queue_pops_total" help:"Pops sent to the lists."`
	Refills int64 `metric:"shardid_queue_refills_total" help:"Segments pushed."`
	Starved int64 `metric:"shardid_queue_starved_total" help:"Callers that got -4, as no index could be had in time."`
	Held    int64 // IDs that this replica holds ahead of its callers
	// A list at its limit, or that another replica refills, is no failure.
	FailedPasses int64 `metric:"shardid_queue_failed_passes_total" help:"Passes over up to 64 lists in which one could not be looked at or refilled."`

	// Indices of segments that were allocated and not pushed for sure, by reason.
	Discarded Discarded
	Purged    int64 // indices of lists that were dropped because they were of an earlier life
	OverLimit int64 // indices popped above the app's limit and dropped
	Dropped   int64 // indices held by this process and given up

	Repeated int64 `metric:"shardid_queue_repeated_indices_total" help:"Indices refused because the list gave them before: must stay 0."`
	Lifts    int64 `metric:"shardid_queue_lifts_total" help:"Times max_id was below what had been handed out: the database went back in time."`
	FarLifts int64 `metric:"shardid_queue_lift_alarms_total" help:"Lifts by more than 100000 indices."`
	Jumps    int64 `metric:"shardid_queue_incarnation_jumps_total" help:"Times the database server changed and the lists could not tell what was handed out."`
	Jumped   int64 // indices left out for it
}

// Discarded counts indices by the reason for which their segments were given up.
type Discarded struct {
	History   int64 // the list began another life meanwhile
	HighWater int64 // the list had seen higher ones
	Full      int64 // another process had filled the list
	Failed    int64 // the push failed, or its answer was lost
}

// counters are those of the service; issued and dropped are of lists that were removed, as pools count
// those of the others.
type counters struct {
	issued, pops, refills                                                atomic.Int64
	discardedHistory, discardedHighWater, discardedFull, discardedFailed atomic.Int64
	purged, overLimit, dropped                                           atomic.Int64
	repeated, lifts, farLifts, jumps, jumped, failedPasses               atomic.Int64
	starved                                                              atomic.Int64
}

// Stats returns the counters; they are read one by one, not at one instant.
func (s *Service) Stats() Stats {
	c := &s.stats
	issued, held, dropped := c.issued.Load(), int64(0), c.dropped.Load()
	if catalogue := s.catalogue.Load(); catalogue != nil {
		for _, l := range catalogue.all() {
			of := l.counts()
			issued, held, dropped = issued+of.Issued, held+of.Held, dropped+of.Dropped
		}
	}
	return Stats{
		Issued: issued, Starved: c.starved.Load(), Held: held, Pops: c.pops.Load(), Refills: c.refills.Load(),
		FailedPasses: c.failedPasses.Load(),
		Discarded: Discarded{
			History: c.discardedHistory.Load(), HighWater: c.discardedHighWater.Load(),
			Full: c.discardedFull.Load(), Failed: c.discardedFailed.Load(),
		},
		Purged: c.purged.Load(), OverLimit: c.overLimit.Load(), Dropped: dropped,
		Repeated: c.repeated.Load(), Lifts: c.lifts.Load(), FarLifts: c.farLifts.Load(),
		Jumps: c.jumps.Load(), Jumped: c.jumped.Load(),
	}
}

// Wasted are the indices that no caller will get, gaps, by reason.
func (s Stats) Wasted() map[string]int64 {
	return map[string]int64{
		"history": s.Discarded.History, "high_water": s.Discarded.HighWater,
		"full": s.Discarded.Full, "failed": s.Discarded.Failed,
		"purged": s.Purged, "over_limit": s.OverLimit, "dropped": s.Dropped, "jumped": s.Jumped,
	}
}

// event logs what happened to one list.
func (s *Service) event(level slog.Level, message string, key model.ListKey, args ...any) {
	s.events.Log(level, message, append([]any{"app", key.App, "shard", key.Shard}, args...)...)
}

// rareEvery is the shortest time between two log lines about what may last for days: another writer of a list,
// while a service is replaced, or an app at its limit.
const rareEvery = 10 * time.Minute

// repeated counts indices of one pop that the tripwire refuses; index is one of them.
func (s *Service) repeated(key model.ListKey, n, index, highest int64, life string) {
	s.stats.repeated.Add(n)
	s.rare.Log(slog.LevelError, "indices refused: another writer pushes to this list, below what the list gave "+
		"before; no ID repeats, they are a gap; docs/migrating.md says what to do",
		"app", key.App, "shard", key.Shard, "indices", n, "index", index, "highest", highest, "life", life)
}

// purged counts indices that the store dropped of an earlier life.
func (s *Service) purged(key model.ListKey, n int64) {
	if n == 0 {
		return
	}
	s.stats.purged.Add(n)
	s.event(slog.LevelWarn, "list dropped: its Redis may have gone back in time, or another service filled it; the indices are a gap", key, "indices", n)
}

// discarded counts a segment that was allocated and not pushed for sure.
func (s *Service) discarded(j *job, err error) {
	n := j.segment.Len()
	switch {
	case errors.Is(err, model.ErrLifeChanged):
		s.stats.discardedHistory.Add(n)
	case errors.Is(err, model.ErrNotAboveHighWater):
		s.stats.discardedHighWater.Add(n)
	case errors.Is(err, model.ErrListFull):
		s.stats.discardedFull.Add(n)
	default:
		s.stats.discardedFailed.Add(n)
	}
	s.event(slog.LevelWarn, "segment given up: a gap", j.key, "first", j.segment.First, "last", j.segment.Last, "error", err)
}

// lifted counts a max_id that was below what has been handed out. Nothing but a
// database that went back in time explains it.
func (s *Service) lifted(key model.ListKey, by int64) {
	if by == 0 {
		return
	}
	s.stats.lifts.Add(1)
	level := slog.LevelWarn
	if by > s.opts.LiftAlarm {
		s.stats.farLifts.Add(1)
		level = slog.LevelError
	}
	s.event(level, "max_id was below what has been handed out and was lifted: the database went back in time", key, "by", by)
}

// jumped counts indices left out because it is unknown how far the database
// went back.
func (s *Service) jumped(key model.ListKey, n int64) {
	if n == 0 {
		return
	}
	s.stats.jumps.Add(1)
	s.stats.jumped.Add(n)
	s.event(slog.LevelError, "indices left out: another database server, or an earlier state of it, and the lists cannot tell what was handed out", key, "indices", n)
}
