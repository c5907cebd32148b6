package observe

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
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

// Gatherer adds the sources to the registry, and gathers all metrics and those of the process. Safe for concurrent use.
func Gatherer(s Sources) prometheus.Gatherer {
	s.Registry.MustRegister(&collector{s})
	process := prometheus.NewRegistry() // of which alarms and charts need nothing
	process.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return prometheus.Gatherers{process, s.Registry}
}

// collector exports the sources at each scrape.
type collector struct{ Sources }

// Describe implements prometheus.Collector. It names no metrics: which there are depends on
// the sources, and Gather checks them.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	out := scrape(metrics)
	out.add("shardid_build_info", "Always 1; the version is the label.", 1, "version", c.Version)
	out.queue(c.Queue())
	if c.Segment != nil {
		stats, tags := c.Segment()
		out.fields(stats)
		out.tags(tags)
	}
	if c.Worker != nil {
		out.fields(c.Worker())
	}
	if c.UID != nil {
		stats, status := c.UID()
		out.fields(stats)
		out.fields(status)
	}
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

// fields exports the fields of a struct that have the tag metric: whole numbers, and durations in seconds.
func (out scrape) fields(of any, labels ...string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		tag, field := v.Type().Field(i).Tag, v.Field(i)
		name := tag.Get("metric")
		if name == "" {
			continue
		}
		value := float64(field.Int())
		if field.Type() == reflect.TypeFor[time.Duration]() {
			value = time.Duration(field.Int()).Seconds()
		}
		out.add(name, tag.Get("help"), value, labels...)
	}
}

func (out scrape) queue(s queue.Stats, apps []queue.View) {
	out.fields(s)
	for reason, n := range s.Wasted() {
		out.add("shardid_queue_wasted_indices_total",
			"Indices that no caller will get, gaps, by reason; docs/monitoring.md explains each.",
			float64(n), "reason", reason)
	}
	for _, v := range apps {
		app := strconv.Itoa(int(v.App))
		out.fields(v, "app", app)
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

// maxTags is how many tags have series of their own; a table may have any number.
const maxTags = 100

// tags exports the tags that this replica has used. They come by name, so that the same tags keep a label of their own;
// the rest, and a tag of that name, is "other".
func (out scrape) tags(tags []segment.View) {
	runways := map[string]float64{}
	for _, v := range tags {
		if !v.InitOK {
			continue
		}
		label := strings.ToValidUTF8(v.Name, "?")
		if _, known := runways[label]; !known && len(runways) >= maxTags {
			label = "other"
		}
		if least, known := runways[label]; !known || v.Runway < least {
			runways[label] = v.Runway
		}
	}
	for label, runway := range runways {
		out.add("shardid_segment_runway_seconds", "How long the held IDs last at the present rate, at most a year; "+
			"beyond 100 tags the rest is other, and has that of the tag that lasts shortest.", runway, "tag", label)
	}
}
