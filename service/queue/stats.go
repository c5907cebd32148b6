package queue

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// counters are the metrics that the service counts.
type counters struct {
	refills, repeated, lifts, farLifts prometheus.Counter
	wasted                             map[string]prometheus.Counter // indices that no caller will get, by reason
	issued, dropped                    atomic.Int64                  // of lists that were removed, as pools count
}

// count makes the counters, and exports what pools count. They start at 0 with the process.
func (s *Service) count() {
	registry, c := s.opts.Registry, &s.stats
	counter := func(name, help string) prometheus.Counter {
		return metric.Counter(registry, "shardid_queue_"+name+"_total", help)
	}
	metric.CounterOf(registry, "shardid_queue_issued_total", "IDs given to callers.",
		func() int64 { return s.countPools().Issued })
	c.refills = counter("refills", "Segments pushed.")
	c.repeated = counter("repeated_indices", "Indices refused because the list gave them before: must stay 0.")
	c.lifts = counter("lifts", "Times max_id was below what had been issued: the database went back in time.")
	c.farLifts = counter("lift_alarms", "Lifts by more than 100000 indices.")

	wasted := func(reason string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "shardid_queue_wasted_indices_total",
			Help:        "Indices that no caller will get, gaps, by reason; docs/monitoring.md explains each.",
			ConstLabels: prometheus.Labels{"reason": reason}}
	}
	c.wasted = map[string]prometheus.Counter{}
	for _, reason := range []string{"history", "high_water", "full", "failed", "purged", "over_limit", "jumped"} {
		c.wasted[reason] = promauto.With(registry).NewCounter(wasted(reason))
	}
	promauto.With(registry).NewCounterFunc(wasted("dropped"),
		func() float64 { return float64(s.countPools().Dropped) })
}

// countPools adds up what the pools of all lists count.
func (s *Service) countPools() hold.Counts {
	sum := hold.Counts{Issued: s.stats.issued.Load(), Dropped: s.stats.dropped.Load()}
	if c := s.catalogue.Load(); c != nil {
		for _, l := range c.all() {
			of := l.counts()
			sum.Issued, sum.Dropped, sum.Held = sum.Issued+of.Issued, sum.Dropped+of.Dropped, sum.Held+of.Held
		}
	}
	return sum
}

// event logs what happened to one list.
func (s *Service) event(level slog.Level, message string, key model.ListKey, args ...any) {
	s.events.Log(level, message, append([]any{"app", key.App, "shard", key.Shard}, args...)...)
}

// rareEvery is the shortest time between two log lines about what may last for days: another writer of a list,
// while a service is replaced.
const rareEvery = 10 * time.Minute

// repeated counts indices of one pop that the tripwire refuses; index is one of them.
func (s *Service) repeated(key model.ListKey, n, index, highest int64, life string) {
	s.stats.repeated.Add(float64(n))
	s.rare.Log(slog.LevelError, "find the other writer of this list, as docs/migrating.md says: indices were "+
		"refused that are below what the list gave before; no ID repeats, they are a gap",
		"app", key.App, "shard", key.Shard, "indices", n, "index", index, "highest", highest, "life", life)
}

// purged counts indices that the store dropped of an earlier life.
func (s *Service) purged(key model.ListKey, n int64) {
	if n == 0 {
		return
	}
	s.stats.wasted["purged"].Add(float64(n))
	s.event(slog.LevelWarn, "find out whether Redis was restored, or another service fills this list: it was "+
		"dropped, and its indices are a gap", key, "indices", n)
}

// discarded counts a segment that was allocated and not pushed for sure.
func (s *Service) discarded(j *job, err error) {
	reason := "failed" // or the answer was lost
	switch {
	case errors.Is(err, model.ErrLifeChanged):
		reason = "history"
	case errors.Is(err, model.ErrNotAboveHighWater):
		reason = "high_water"
	case errors.Is(err, model.ErrListFull):
		reason = "full"
	}
	s.stats.wasted[reason].Add(float64(j.segment.Len()))
	s.event(slog.LevelWarn, "segment given up: a gap", j.key, "first", j.segment.First, "last", j.segment.Last, "error",
		err)
}

// farLift is by how many indices a max_id goes back only when a database is restored or replaced.
const farLift = 100_000

// lifted counts a max_id that was below what has been issued. Nothing but a
// database that went back in time explains it.
func (s *Service) lifted(key model.ListKey, by int64) {
	if by == 0 {
		return
	}
	s.stats.lifts.Inc()
	level := slog.LevelWarn
	if by > farLift {
		s.stats.farLifts.Inc()
		level = slog.LevelError
	}
	s.event(level, "find out what restored the database: max_id was below what has been issued, and was raised", key,
		"by", by)
}

// jumped counts indices skipped because it is unknown how far the database
// went back.
func (s *Service) jumped(key model.ListKey, n int64) {
	if n == 0 {
		return
	}
	s.stats.wasted["jumped"].Add(float64(n))
	s.event(slog.LevelError, "find out whether the database was restored or failed over: indices were skipped, as "+
		"the lists cannot tell what was issued", key, "indices", n)
}
