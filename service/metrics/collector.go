package metrics

import (
	"strconv"

	"shardid/service/queue"

	"github.com/prometheus/client_golang/prometheus"
)

// collector turns the sources into metrics.
type collector struct {
	sources   Sources
	queue     []queueCounter
	discarded *prometheus.Desc
	condition *prometheus.Desc
	answers   *prometheus.Desc
	build     *prometheus.Desc
	unsafe    *prometheus.Desc
}

// queueCounter is one field of queue.Stats.
type queueCounter struct {
	desc  *prometheus.Desc
	value func(queue.Stats) int64
}

func newCollector(s Sources) *collector {
	return &collector{
		sources: s,
		queue:   queueCounters(),
		discarded: prometheus.NewDesc("shardid_queue_discarded_indices_total",
			"Indices of segments that were allocated and not pushed for sure, by reason: gaps.", []string{"reason"}, nil),
		condition: prometheus.NewDesc("shardid_condition_ok", "Whether something the service depends on works: 1 or 0.", []string{"name"}, nil),
		answers:   prometheus.NewDesc("shardid_http_answers_total", "Answers by code of the error table: 0 is IDs served, the others are errors of every path.", []string{"code"}, nil),
		build:     prometheus.NewDesc("shardid_build_info", "Always 1; the version is the label.", []string{"version"}, nil),
		unsafe:    prometheus.NewDesc("shardid_unsafe_no_history", "Whether redis.unsafe_no_history is set: 1 or 0. With 1 IDs can repeat.", nil, nil),
	}
}

func queueCounters() []queueCounter {
	counter := func(name, help string, value func(queue.Stats) int64) queueCounter {
		return queueCounter{prometheus.NewDesc("shardid_queue_"+name+"_total", help, nil, nil), value}
	}
	return []queueCounter{
		counter("issued", "IDs given to callers.", func(s queue.Stats) int64 { return s.Issued }),
		counter("pops", "Pops sent to the lists.", func(s queue.Stats) int64 { return s.Pops }),
		counter("refills", "Segments pushed.", func(s queue.Stats) int64 { return s.Refills }),
		counter("purged_lists", "Lists dropped because they were of an earlier history.", func(s queue.Stats) int64 { return s.Purges }),
		counter("purged_indices", "Indices dropped because their list was of an earlier history: gaps.", func(s queue.Stats) int64 { return s.Purged }),
		counter("over_limit_indices", "Indices popped above the app's limit and dropped.", func(s queue.Stats) int64 { return s.OverLimit }),
		counter("dropped_indices", "Indices held by this replica and given up: gaps.", func(s queue.Stats) int64 { return s.Dropped }),
		counter("lifts", "Times max_id was below what had been handed out: the database went back in time.", func(s queue.Stats) int64 { return s.Lifts }),
		counter("lift_alarms", "Lifts by more than queue.lift_alarm.", func(s queue.Stats) int64 { return s.LiftAlarms }),
		counter("incarnation_jumps", "Times the database server changed and the lists could not tell what was handed out.", func(s queue.Stats) int64 { return s.Jumps }),
		counter("jumped_indices", "Indices left out for it: gaps.", func(s queue.Stats) int64 { return s.Jumped }),
		counter("repeated_indices", "Indices refused because the list gave them before: must stay 0.", func(s queue.Stats) int64 { return s.Repeated }),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, q := range c.queue {
		out <- q.desc
	}
	out <- c.discarded
	out <- c.condition
	out <- c.answers
	out <- c.build
	out <- c.unsafe
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	stats := c.sources.Queue()
	for _, q := range c.queue {
		out <- prometheus.MustNewConstMetric(q.desc, prometheus.CounterValue, float64(q.value(stats)))
	}
	for reason, n := range map[string]int64{
		"history": stats.Discarded.History, "high_water": stats.Discarded.HighWater,
		"full": stats.Discarded.Full, "failed": stats.Discarded.Failed,
	} {
		out <- prometheus.MustNewConstMetric(c.discarded, prometheus.CounterValue, float64(n), reason)
	}
	for _, condition := range c.sources.Conditions() {
		out <- prometheus.MustNewConstMetric(c.condition, prometheus.GaugeValue, gauge(condition.OK), condition.Name)
	}
	for code, n := range c.sources.Answers() {
		out <- prometheus.MustNewConstMetric(c.answers, prometheus.CounterValue, float64(n), strconv.Itoa(code))
	}
	out <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, c.sources.Version)
	out <- prometheus.MustNewConstMetric(c.unsafe, prometheus.GaugeValue, gauge(c.sources.UnsafeNoHistory))
}

func gauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
