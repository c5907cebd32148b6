package queue

import (
	"errors"
	"log/slog"

	"shardid/model"
)

// purged counts indices that the store dropped with an earlier history.
func (s *Service) purged(key model.ListKey, n int64) {
	if n == 0 {
		return
	}
	s.stats.purgedLists.Add(1)
	s.stats.purged.Add(n)
	s.events.add(slog.LevelWarn, "list dropped: its Redis may have gone back in time; the indices are a gap", key, "indices", n)
}

// discarded counts a segment that was allocated and not pushed for sure.
func (s *Service) discarded(j *job, err error) {
	n := j.segment.Len()
	switch {
	case errors.Is(err, model.ErrHistoryChanged):
		s.stats.discardedHistory.Add(n)
	case errors.Is(err, model.ErrNotAboveHighWater):
		s.stats.discardedHighWater.Add(n)
	case errors.Is(err, model.ErrListFull):
		s.stats.discardedFull.Add(n)
	default:
		s.stats.discardedFailed.Add(n)
	}
	s.events.add(slog.LevelWarn, "segment given up: a gap", j.key, "first", j.segment.First, "last", j.segment.Last, "error", err)
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
		s.stats.liftAlarms.Add(1)
		level = slog.LevelError
	}
	s.events.add(level, "max_id was below what has been handed out and was lifted: the database went back in time", key, "by", by)
}

// jumped counts indices left out because nobody could tell how far the database
// went back.
func (s *Service) jumped(key model.ListKey, n int64) {
	if n == 0 {
		return
	}
	s.stats.jumps.Add(1)
	s.stats.jumped.Add(n)
	s.events.add(slog.LevelError, "indices left out: another database server, or an earlier state of it, and the lists cannot tell what was handed out", key, "indices", n)
}
