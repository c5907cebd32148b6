package observe

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/latency"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/snowflake"
	"shardid/service/uid"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// Sources are what is exported. The functions must be safe for concurrent use, and must not
// ask a store; all are required but those of the modes beside the queue.
type Sources struct {
	Version string
	// UnsafeNoHistory: the lists are served although their Redis may hide that it
	// went back in time.
	UnsafeNoHistory bool
	Stores          *Stores

	Conditions  func() []model.Condition
	Answers     func() map[int]int64             // over HTTP by code of the error table; 0 is IDs served
	RESPAnswers func() map[int]int64             // to commands, likewise; nil without resp.addr
	Traffic     func() map[string]issuer.Traffic // of the ID routes, by mode
	Settings    func() []model.Finding           // of the stores, as last seen
	Connections func() Connections               // of clients

	Queue func() (queue.Stats, []queue.View) // 256 apps at most, as last seen
	// The other modes; nil for one that is disabled.
	Segment   func() (segment.Stats, []segment.View) // tags by name
	Snowflake func() Snowflake
	UID       func() (uid.Stats, uid.Status)
}

// Connections are how many clients are connected, and how many could not be since the
// start.
type Connections struct {
	Open    int64
	Refused int64 // closed at once, as too many were open
	Failed  int64 // not accepted, for want of descriptors mostly
}

// Snowflake is a sample of the snowflake mode.
type Snowflake struct {
	Stats     snowflake.Stats
	Worker    worker.Status
	MaxOffset time.Duration // how far the clock may be from the registry's
	Remaining time.Duration // until the 41 bits of time end
}

// Text returns a function that reads the metrics in Prometheus' text format and is safe for
// concurrent use.
func Text(s Sources) func(context.Context) ([]byte, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{Sources: s})
	return func(context.Context) ([]byte, error) {
		families, err := registry.Gather()
		if err != nil {
			return nil, fmt.Errorf("read the metrics: %w", err)
		}
		var out bytes.Buffer
		for _, family := range families {
			if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
				return nil, fmt.Errorf("write the metrics: %w", err)
			}
		}
		return out.Bytes(), nil
	}
}

// collector exports the sources at each scrape.
type collector struct {
	Sources
	descs sync.Map // of *prometheus.Desc by name, each made once
}

// Describe implements prometheus.Collector. It names no metrics: which there are depends on
// the sources, and Gather checks them.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	out := scrape{metrics, &c.descs}
	out.process(c.Sources)
	for _, o := range c.Stores.operations {
		out.histogram("shardid_store_operation_seconds", "How long calls of the stores took, failed ones too.",
			o.took.Read(), "store", o.store, "operation", o.name)
		out.counter("shardid_store_errors_total",
			"Calls of the stores that failed; a refusal that is an answer, such as a limit that is reached, "+
				"is none.", o.failed.Load(), "store", o.store, "operation", o.name)
	}
	traffic := c.Traffic()
	out.traffic(httpapi.ModeQueue, traffic)
	out.queue(c.Queue())
	if c.Segment != nil {
		out.traffic(httpapi.ModeSegment, traffic)
		out.segment(c.Segment())
	}
	if c.Snowflake != nil {
		out.traffic(httpapi.ModeSnowflake, traffic)
		out.snowflake(c.Snowflake())
	}
	if c.UID != nil {
		out.traffic(httpapi.ModeUID, traffic)
		out.uid(c.UID())
	}
}

// scrape is where the metrics of one scrape go. Labels are pairs of a name and a value.
type scrape struct {
	metrics chan<- prometheus.Metric
	descs   *sync.Map
}

func (out scrape) counter(name, help string, value int64, labels ...string) {
	desc, values := out.describe(name, help, labels)
	out.metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), values...)
}

func (out scrape) gauge(name, help string, value float64, labels ...string) {
	desc, values := out.describe(name, help, labels)
	out.metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
}

// histogram exports durations, in seconds.
func (out scrape) histogram(name, help string, r latency.Reading, labels ...string) {
	cumulative, n := make(map[float64]uint64, latency.Buckets), uint64(0)
	for i, bound := range latency.Bounds() {
		n += uint64(r.Counts[i])
		cumulative[bound.Seconds()] = n
	}
	desc, values := out.describe(name, help, labels)
	count, sum := uint64(r.Count()), r.Sum.Seconds()
	out.metrics <- prometheus.MustNewConstHistogram(desc, count, sum, cumulative, values...)
}

// describe returns the description of a metric, and the values of its labels.
func (out scrape) describe(name, help string, labels []string) (*prometheus.Desc, []string) {
	values := make([]string, 0, 2) // no metric has more labels
	for i := 1; i < len(labels); i += 2 {
		values = append(values, labels[i])
	}
	desc, known := out.descs.Load(name)
	if !known {
		var names []string
		for i := 0; i < len(labels); i += 2 {
			names = append(names, labels[i])
		}
		desc, _ = out.descs.LoadOrStore(name, prometheus.NewDesc(name, help, names, nil))
	}
	return desc.(*prometheus.Desc), values
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// process exports process-wide metrics.
func (out scrape) process(s Sources) {
	for _, condition := range s.Conditions() {
		out.gauge("shardid_condition_ok", "Whether something the service depends on works: 1 or 0.",
			oneIf(condition.OK), "name", condition.Name)
	}
	for code, n := range s.Answers() {
		out.counter("shardid_http_answers_total",
			"Answers by code of the error table: 0 is IDs served, the others are errors of every path.",
			n, "code", strconv.Itoa(code))
	}
	if s.RESPAnswers != nil {
		for code, n := range s.RESPAnswers() {
			out.counter("shardid_resp_answers_total", "Answers to commands of Redis clients by code of the error "+
				"table: 0 is IDs served, the others are errors of every command.", n, "code", strconv.Itoa(code))
		}
	}
	findings := s.Settings()
	for _, level := range []model.Level{model.LevelOK, model.LevelWarn, model.LevelUnsafe, model.LevelUnknown} {
		n := 0
		for _, f := range findings {
			if f.Level == level {
				n++
			}
		}
		out.gauge("shardid_store_settings",
			"Settings of the stores by what shardid doctor says of them: ok, warn, unsafe or unknown.",
			float64(n), "level", string(level))
	}
	clients := s.Connections()
	out.gauge("shardid_connections", "Connections of clients that are open.", float64(clients.Open))
	out.counter("shardid_connections_refused_total",
		"Connections of clients that were closed at once, as server.max_connections were open.", clients.Refused)
	out.counter("shardid_accept_errors_total",
		"Connections of clients that could not be accepted, for want of descriptors mostly.", clients.Failed)
	out.gauge("shardid_build_info", "Always 1; the version is the label.", 1, "version", s.Version)
	out.gauge("shardid_unsafe_no_history",
		"Whether redis.unsafe_no_history is set: 1 or 0. With 1 IDs can repeat.", oneIf(s.UnsafeNoHistory))
}

// traffic exports the ID route of one mode.
func (out scrape) traffic(mode string, all map[string]issuer.Traffic) {
	t := all[mode]
	for outcome, r := range map[string]latency.Reading{"ok": t.OK, "refused": t.Refused, "failed": t.Failed} {
		out.histogram("shardid_request_duration_seconds", "How long requests for IDs took, by outcome: "+
			"ok, refused (4xx, the caller's to change) or failed (5xx).", r, "mode", mode, "outcome", outcome)
	}
	for code, n := range t.Codes {
		out.counter("shardid_refused_total", "Requests for IDs that got none, by code of the error table.",
			n, "mode", mode, "code", strconv.Itoa(code))
	}
}

func (out scrape) queue(s queue.Stats, apps []queue.View) {
	out.counter("shardid_queue_issued_total", "IDs given to callers.", s.Issued)
	out.counter("shardid_queue_starved_total",
		"Callers that got -4, as no index could be had in time.", s.Starved)
	out.counter("shardid_queue_pops_total", "Pops sent to the lists.", s.Pops)
	out.counter("shardid_queue_refills_total", "Segments pushed.", s.Refills)
	out.counter("shardid_queue_failed_passes_total",
		"Passes over up to 64 lists in which one could not be looked at or refilled.", s.FailedPasses)
	out.counter("shardid_queue_purged_lists_total",
		"Lists dropped because they were of an earlier life.", s.Purges)
	out.counter("shardid_queue_lifts_total",
		"Times max_id was below what had been handed out: the database went back in time.", s.Lifts)
	out.counter("shardid_queue_lift_alarms_total", "Lifts by more than queue.lift_alarm.", s.FarLifts)
	out.counter("shardid_queue_incarnation_jumps_total",
		"Times the database server changed and the lists could not tell what was handed out.", s.Jumps)
	out.counter("shardid_queue_repeated_indices_total",
		"Indices refused because the list gave them before: must stay 0.", s.Repeated)
	out.gauge("shardid_queue_held_ids", "IDs that this replica holds ahead of its callers.", float64(s.Held))
	out.histogram("shardid_queue_refill_pass_seconds",
		"How long a pass took that refills up to 64 lists: lock, state, allocate, push.", s.Passes)
	for reason, n := range s.Wasted() {
		out.counter("shardid_queue_wasted_indices_total",
			"Indices that no caller will get, gaps, by reason; docs/metrics.md explains each.", n, "reason", reason)
	}
	unconfirmed, wrap := 0, 0.0
	for _, v := range apps {
		out.app(v)
		unconfirmed += v.Unconfirmed
		wrap += oneIf(v.Policy == model.LimitWrap)
	}
	out.gauge("shardid_queue_unconfirmed_lists",
		"Lists that take no segment before an operator confirms their max_id.", float64(unconfirmed))
	out.gauge("shardid_queue_wrap_apps",
		"Apps with the wrap policy, whose IDs repeat once they pass the limit.", wrap)
}

// app exports one app of the queue mode.
func (out scrape) app(v queue.View) {
	app := strconv.Itoa(int(v.App))
	sum, least := int64(0), int64(-1) // of the depths that are known
	for _, d := range v.Depths {
		if d >= 0 {
			sum += d
			if least < 0 || d < least {
				least = d
			}
		}
	}
	out.counter("shardid_queue_app_issued_total", "IDs of the app given to callers.", v.Issued, "app", app)
	out.counter("shardid_queue_app_refills_total", "Segments of the app pushed.", v.Refills, "app", app)
	out.gauge("shardid_queue_app_held_ids",
		"IDs of the app that this replica holds ahead of its callers.", float64(v.Held), "app", app)
	out.gauge("shardid_queue_app_depth_indices",
		"Indices in the app's lists, as this replica last saw each, without lists that it has not seen for two sweeps of others.",
		float64(sum), "app", app)
	out.gauge("shardid_queue_app_depth_min_indices",
		"Indices in the shortest of the app's lists, seen likewise; -1 when none was seen.",
		float64(least), "app", app)
	out.gauge("shardid_queue_app_left_ratio",
		"Share of its indices that the shard with the fewest can still allocate, 0 to 1.", v.Left, "app", app)
	out.gauge("shardid_queue_app_exhausted_lists",
		"Shards of the app that have nothing more to give under its limit.", float64(v.Exhausted), "app", app)
}

func (out scrape) segment(s segment.Stats, tags []segment.View) {
	out.counter("shardid_segment_issued_total", "IDs given to callers.", s.Issued)
	out.counter("shardid_segment_refused_total", "Calls that got none.", s.Refused)
	out.counter("shardid_segment_starved_total",
		"Calls that got -4, as no segment could be had in time.", s.Starved)
	out.counter("shardid_segment_waits_total", "Calls that waited for a segment.", s.Waits)
	out.counter("shardid_segment_loads_total", "Segments asked for.", s.Loads)
	out.counter("shardid_segment_failed_loads_total",
		"Segments that were not had, or whose answer was lost.", s.FailedLoads)
	out.counter("shardid_segment_wasted_total", "IDs held by this replica and given up: gaps.", s.Wasted)
	out.counter("shardid_segment_lifts_total",
		"Times max_id was below what this replica knows to be handed out: the table went back in time.", s.Lifts)
	out.counter("shardid_segment_repeated_total",
		"Segments refused because IDs of them were handed out before: must stay 0.", s.Repeated)
	out.histogram("shardid_segment_load_seconds",
		"How long taking a segment took, failed ones too.", s.LoadTimes)
	for label, tag := range byLabel(tags) {
		out.gauge("shardid_segment_held_ids",
			"IDs that this replica can issue without the database; beyond 100 tags the rest is other.",
			float64(tag.held), "tag", label)
		out.gauge("shardid_segment_runway_seconds", "How long the held IDs last at the present rate, "+
			"at most a year; of other the tag that lasts shortest.", tag.runway, "tag", label)
	}
}

// maxTags is how many tags have series of their own; a table may have any number.
const maxTags = 100

// otherTags is the label of the rest, and of a tag of that name.
const otherTags = "other"

// supply is what is held of the tags that share a label.
type supply struct {
	held   int64
	runway float64 // seconds, of the one that lasts shortest
}

// byLabel sums the tags that share a label, but for those that this replica never used. The
// views come by name, so that the same tags keep a label of their own.
func byLabel(views []segment.View) map[string]supply {
	all := map[string]supply{}
	for _, v := range views {
		if !v.InitOK {
			continue
		}
		label := strings.ToValidUTF8(v.Name, "?")
		s, known := all[label]
		if !known && len(all) >= maxTags {
			label = otherTags
			s, known = all[label]
		}
		if !known {
			s.runway = v.Runway
		}
		all[label] = supply{s.held + v.Held, min(s.runway, v.Runway)}
	}
	return all
}

func (out scrape) snowflake(s Snowflake) {
	out.counter("shardid_snowflake_issued_total", "IDs given to callers.", s.Stats.Issued)
	out.counter("shardid_snowflake_refused_total", "Calls that got none.", s.Stats.Refused)
	out.counter("shardid_snowflake_wasted_total",
		"IDs taken for calls that were refused in the middle: gaps.", s.Stats.Wasted)
	out.counter("shardid_snowflake_waits_total",
		"Sleeps for the next millisecond, or for a clock that went back a little.", s.Stats.Waits)
	out.gauge("shardid_snowflake_worker_id", "The worker ID, -1 without one.", float64(s.Worker.WorkerID))
	out.gauge("shardid_snowflake_lease_trust_seconds",
		"How long the worker ID is trusted without a renewal.", s.Worker.Trust.Seconds())
	out.gauge("shardid_snowflake_offline",
		"Whether the registry is away and the local file reserves time: 1 or 0.",
		oneIf(s.Worker.State == worker.StateOffline))
	out.gauge("shardid_snowflake_clock_offset_seconds",
		"How far this clock is ahead of the registry's.", s.Worker.ClockOffset.Seconds())
	out.gauge("shardid_snowflake_clock_offset_limit_seconds",
		"How far the clock may be from the registry's: snowflake.max_clock_offset.", s.MaxOffset.Seconds())
	out.gauge("shardid_snowflake_lifetime_seconds", "How long the 41 bits of time last.", s.Remaining.Seconds())
	for _, state := range []string{worker.StateWaiting, worker.StateServing, worker.StateOffline} {
		out.gauge("shardid_snowflake_lease_state",
			"1 for the state of the worker ID: waiting (nothing is issued), serving, or offline "+
				"(the local file reserves time); 0 for the others.", oneIf(state == s.Worker.State), "state", state)
	}
}

func (out scrape) uid(s uid.Stats, now uid.Status) {
	out.counter("shardid_uid_issued_total", "IDs given to callers.", s.Issued)
	out.counter("shardid_uid_refused_total", "Takes that found too little in the ring.", s.Refused)
	out.counter("shardid_uid_dropped_total",
		"IDs given up, of batches that could not be completed and of rings: gaps.", s.Dropped)
	out.counter("shardid_uid_discarded_total", "Puts that found the ring full.", s.Discarded)
	out.counter("shardid_uid_nodes_total", "Worker IDs got.", s.Nodes)
	out.gauge("shardid_uid_worker_id", "The worker ID, -1 without one.", float64(now.WorkerID))
	out.gauge("shardid_uid_ring_size", "IDs that the ring has room for.", float64(now.RingSize))
	out.gauge("shardid_uid_ring_fill", "IDs in the ring.", float64(now.RingFill))
	out.gauge("shardid_uid_ahead_seconds",
		"How far the time of the newest ID is ahead of the clock.", float64(now.AheadSeconds))
	out.gauge("shardid_uid_runway_seconds",
		"How long IDs can be issued at the present rate without the database.", float64(now.RunwaySeconds))
	out.gauge("shardid_uid_runway_kept_seconds",
		"The least runway while the database answers.", float64(now.RunwayKept))
	out.gauge("shardid_uid_lifetime_seconds", "Seconds left in the time bits.", float64(now.RemainingSeconds))
}
