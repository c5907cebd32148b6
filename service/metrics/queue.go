package metrics

import (
	"shardid/service/latency"
	"shardid/service/queue"

	"github.com/prometheus/client_golang/prometheus"
)

func newQueue(stats func() queue.Stats, apps func() []queue.View) prometheus.Collector {
	n := &numbers[queue.Stats]{sample: stats, further: both{newWasted(stats), newApps(apps)}}
	n.counter("shardid_queue_issued", "IDs given to callers.", func(s queue.Stats) int64 { return s.Issued })
	n.counter("shardid_queue_starved", "Callers that got -4, as no index could be had in time.", func(s queue.Stats) int64 { return s.Starved })
	n.counter("shardid_queue_pops", "Pops sent to the lists.", func(s queue.Stats) int64 { return s.Pops })
	n.counter("shardid_queue_refills", "Segments pushed.", func(s queue.Stats) int64 { return s.Refills })
	n.counter("shardid_queue_failed_passes", "Passes over up to 64 lists in which one could not be looked at or refilled.", func(s queue.Stats) int64 { return s.FailedPasses })
	n.counter("shardid_queue_purged_lists", "Lists dropped because they were of an earlier history.", func(s queue.Stats) int64 { return s.Purges })
	n.counter("shardid_queue_lifts", "Times max_id was below what had been handed out: the database went back in time.", func(s queue.Stats) int64 { return s.Lifts })
	n.counter("shardid_queue_lift_alarms", "Lifts by more than queue.lift_alarm.", func(s queue.Stats) int64 { return s.LiftAlarms })
	n.counter("shardid_queue_incarnation_jumps", "Times the database server changed and the lists could not tell what was handed out.", func(s queue.Stats) int64 { return s.Jumps })
	n.counter("shardid_queue_repeated_indices", "Indices refused because the list gave them before: must stay 0.", func(s queue.Stats) int64 { return s.Repeated })
	n.gauge("shardid_queue_held_ids", "IDs that this replica holds ahead of its callers.", func(s queue.Stats) float64 { return float64(s.Held) })
	n.histogram("shardid_queue_refill_pass_seconds", "How long a pass took that refills up to 64 lists: lock, state, allocate, push.", func(s queue.Stats) latency.Reading { return s.Passes })
	return n
}

// wasted shows the gaps of the queue mode by reason.
type wasted struct {
	stats func() queue.Stats
	desc  *prometheus.Desc
}

func newWasted(stats func() queue.Stats) *wasted {
	return &wasted{stats, prometheus.NewDesc("shardid_queue_wasted_indices_total",
		"Indices that nobody will get, gaps, by reason; docs/metrics.md explains each.", []string{"reason"}, nil)}
}

// Describe implements prometheus.Collector.
func (w *wasted) Describe(out chan<- *prometheus.Desc) { out <- w.desc }

// Collect implements prometheus.Collector.
func (w *wasted) Collect(out chan<- prometheus.Metric) {
	for reason, n := range w.stats().Wasted() {
		out <- prometheus.MustNewConstMetric(w.desc, prometheus.CounterValue, float64(n), reason)
	}
}

// both is two collectors that are one.
type both [2]prometheus.Collector

// Describe implements prometheus.Collector.
func (b both) Describe(out chan<- *prometheus.Desc) { b[0].Describe(out); b[1].Describe(out) }

// Collect implements prometheus.Collector.
func (b both) Collect(out chan<- prometheus.Metric) { b[0].Collect(out); b[1].Collect(out) }
