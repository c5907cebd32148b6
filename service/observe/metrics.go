package observe

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
)

// Sources are what is exported beside what the services count in the registry themselves. The functions must
// be safe for concurrent use, and must not ask a store. Those of a mode that is disabled are nil.
type Sources struct {
	Version  string
	Registry *prometheus.Registry
	Queue    func() (queue.Stats, []queue.View)
	Segment  func() (segment.Stats, []segment.View) // with the tags that were used, by name
	Worker   func() worker.Status                   // of the snowflake mode
	UID      func() (uid.Stats, uid.Status)
}

// Text adds the sources to the registry and returns a function that reads all metrics, and those of the
// process, in Prometheus' text format and is safe for concurrent use.
func Text(s Sources) func(context.Context) ([]byte, error) {
	s.Registry.MustRegister(&collector{Sources: s})
	process := prometheus.NewRegistry() // of which alarms and charts need nothing
	process.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return func(context.Context) ([]byte, error) {
		families, err := prometheus.Gatherers{process, s.Registry}.Gather()
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
	out.gauge("shardid_build_info", "Always 1; the version is the label.", 1, "version", c.Version)
	out.queue(c.Queue())
	if c.Segment != nil {
		stats, tags := c.Segment()
		out.fields(stats)
		out.tags(tags)
	}
	if c.Worker != nil {
		out.worker(c.Worker())
	}
	if c.UID != nil {
		stats, status := c.UID()
		out.fields(stats)
		out.fields(status)
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

// fields exports the fields of a struct that have the tag metric; a name that ends in _total is
// that of a counter. Durations are in seconds.
func (out scrape) fields(of any, labels ...string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name, help := tag.Get("metric"), tag.Get("help")
		switch field := v.Field(i); {
		case name == "":
		case strings.HasSuffix(name, "_total"):
			out.counter(name, help, field.Int(), labels...)
		case field.CanFloat():
			out.gauge(name, help, field.Float(), labels...)
		default:
			n := float64(field.Int())
			if field.Type() == reflect.TypeFor[time.Duration]() {
				n = time.Duration(field.Int()).Seconds()
			}
			out.gauge(name, help, n, labels...)
		}
	}
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

func (out scrape) queue(s queue.Stats, apps []queue.View) {
	out.fields(s)
	for reason, n := range s.Wasted() {
		out.counter("shardid_queue_wasted_indices_total",
			"Indices that no caller will get, gaps, by reason; docs/monitoring.md explains each.", n, "reason", reason)
	}
	unconfirmed := 0
	for _, v := range apps {
		out.app(v)
		unconfirmed += v.Unconfirmed
	}
	out.gauge("shardid_queue_unconfirmed_lists",
		"Lists that take no segment before an operator confirms their max_id.", float64(unconfirmed))
}

// app exports one app of the queue mode.
func (out scrape) app(v queue.View) {
	app := strconv.Itoa(int(v.App))
	sum, least := int64(0), int64(-1) // of the depths that are known; -1 when none is
	for _, d := range v.Depths {
		if d >= 0 {
			sum += d
			if least < 0 || d < least {
				least = d
			}
		}
	}
	out.fields(v, "app", app)
	if least >= 0 {
		out.gauge("shardid_queue_app_depth_indices", "Indices waiting in the app's lists, as this replica "+
			"last saw each; left out when it has seen none.", float64(sum), "app", app)
	}
	out.gauge("shardid_queue_app_depth_min_indices",
		"Indices in the shortest of the app's lists, seen likewise; -1 when none was seen.",
		float64(least), "app", app)
}

func (out scrape) tags(tags []segment.View) {
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

func (out scrape) worker(s worker.Status) {
	out.fields(s)
	for _, state := range []string{worker.StateWaiting, worker.StateServing, worker.StateOffline} {
		out.gauge("shardid_snowflake_lease_state",
			"1 for the state of the worker ID: waiting (nothing is issued), serving, or offline "+
				"(the local file reserves time); 0 for the others.", oneIf(state == s.State), "state", state)
	}
}
