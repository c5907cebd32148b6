package observe

import (
	"slices"
	"strconv"
	"strings"

	"shardid/service/monitor"
	"shardid/service/queue"
	"shardid/service/uid"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Gatherer adds what is told of UIDs to the registry, and gathers all metrics, what the state tells, and those of the
// process. The functions must be safe for concurrent use, and must not ask a store; uids gives nil with the mode
// disabled. So is the result.
func Gatherer(
	registry *prometheus.Registry, state func() monitor.State, uids func() *uid.Status,
) prometheus.Gatherer {
	registry.MustRegister(uidCollector(uids))
	// Alarms and charts, which gather the registry every few seconds, need nothing of these.
	scraped := prometheus.NewRegistry()
	scraped.MustRegister(collector(state), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return prometheus.Gatherers{scraped, registry}
}

// collector exports the state at each scrape.
type collector func() monitor.State

// Describe implements prometheus.Collector. It names no metrics: which there are depends on
// the state, and Gather checks them.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	out, s := scrape(metrics), c()
	out.add("shardid_build_info", "Always 1; the version is the label.", 1, "version", s.Version)
	out.apps(s.Queue.Apps)
	if s.Snowflake != nil {
		out.add("shardid_snowflake_lease_trust_seconds",
			"How long the worker ID is trusted without a renewal.", s.Worker.Trust.Seconds())
	}
}

// uidCollector exports how UIDs do.
type uidCollector func() *uid.Status

// Describe implements prometheus.Collector, as that of collector does.
func (uidCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c uidCollector) Collect(metrics chan<- prometheus.Metric) {
	out, now := scrape(metrics), c()
	if now == nil {
		return
	}
	out.add("shardid_uid_issued_total", "IDs given to callers.", float64(now.Issued))
	out.add("shardid_uid_dropped_total", "IDs given up, of incomplete batches and of rings: gaps.",
		float64(now.Dropped))
	out.add("shardid_uid_refused_total", "Takes that found too little in the ring.", float64(now.Refused))
	out.add("shardid_uid_worker_id", "The worker ID, -1 without one.", float64(now.WorkerID))
	out.add("shardid_uid_ring_size", "IDs that the ring has room for.", float64(now.RingSize))
	out.add("shardid_uid_ring_fill", "IDs in the ring.", float64(now.RingFill))
	out.add("shardid_uid_ahead_seconds", "How far the time of the newest ID is ahead of the clock.",
		float64(now.AheadSeconds))
	out.add("shardid_uid_runway_seconds", "How long IDs can be issued at the present rate without the database.",
		float64(now.RunwaySeconds))
	out.add("shardid_uid_lifetime_seconds", "Seconds left in the time bits.", float64(now.RemainingSeconds))
}

// scrape is where the metrics of one scrape go.
type scrape chan<- prometheus.Metric

// add exports a counter, whose name ends in _total, or a gauge. Labels are pairs of a name and a value.
func (out scrape) add(name, help string, value float64, labels ...string) {
	kind, of := prometheus.GaugeValue, prometheus.Labels{}
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	for pair := range slices.Chunk(labels, 2) {
		of[pair[0]] = pair[1]
	}
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, of), kind, value)
}

// apps exports what is known of each app.
func (out scrape) apps(apps []queue.View) {
	for _, v := range apps {
		app := strconv.Itoa(int(v.App))
		out.add("shardid_queue_app_issued_total", "IDs of the app given to callers.", float64(v.Issued), "app", app)
		least := int64(-1)
		for _, d := range v.Depths {
			if d >= 0 && (least < 0 || d < least) {
				least = d
			}
		}
		out.add("shardid_queue_app_depth_min_indices", "Indices in the shortest of the app's lists, as this replica "+
			"last saw each; -1 when it has seen none.", float64(least), "app", app)
	}
}
