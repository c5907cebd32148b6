package metrics

import (
	"strconv"

	"shardid/model"

	"github.com/prometheus/client_golang/prometheus"
)

// collector shows what is of no mode.
type collector struct {
	sources   Sources
	condition *prometheus.Desc
	answers   *prometheus.Desc
	build     *prometheus.Desc
	unsafe    *prometheus.Desc
	settings  *prometheus.Desc
	open      *prometheus.Desc
	refused   *prometheus.Desc
	failed    *prometheus.Desc
}

// Connections are how many clients are connected, and how many could not be since the
// start.
type Connections struct {
	Open    int64
	Refused int64 // closed at once, as too many were open
	Failed  int64 // not accepted, for want of descriptors mostly
}

func newCollector(s Sources) *collector {
	return &collector{
		sources:   s,
		condition: prometheus.NewDesc("shardid_condition_ok", "Whether something the service depends on works: 1 or 0.", []string{"name"}, nil),
		answers:   prometheus.NewDesc("shardid_http_answers_total", "Answers by code of the error table: 0 is IDs served, the others are errors of every path.", []string{"code"}, nil),
		build:     prometheus.NewDesc("shardid_build_info", "Always 1; the version is the label.", []string{"version"}, nil),
		unsafe:    prometheus.NewDesc("shardid_unsafe_no_history", "Whether redis.unsafe_no_history is set: 1 or 0. With 1 IDs can repeat.", nil, nil),
		settings:  prometheus.NewDesc("shardid_store_settings", "Settings of the stores by what shardid doctor says of them: ok, warn, unsafe or unknown.", []string{"level"}, nil),
		open:      prometheus.NewDesc("shardid_connections", "Connections of clients that are open.", nil, nil),
		refused:   prometheus.NewDesc("shardid_connections_refused_total", "Connections of clients that were closed at once, as server.max_connections were open.", nil, nil),
		failed:    prometheus.NewDesc("shardid_accept_errors_total", "Connections of clients that could not be accepted, for want of descriptors mostly.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.condition, c.answers, c.build, c.unsafe, c.settings, c.open, c.refused, c.failed} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, condition := range c.sources.Conditions() {
		out <- prometheus.MustNewConstMetric(c.condition, prometheus.GaugeValue, gauge(condition.OK), condition.Name)
	}
	for code, n := range c.sources.Answers() {
		out <- prometheus.MustNewConstMetric(c.answers, prometheus.CounterValue, float64(n), strconv.Itoa(code))
	}
	for level, n := range levels(c.sources.Settings()) {
		out <- prometheus.MustNewConstMetric(c.settings, prometheus.GaugeValue, float64(n), string(level))
	}
	n := c.sources.Connections()
	out <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(n.Open))
	out <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(n.Refused))
	out <- prometheus.MustNewConstMetric(c.failed, prometheus.CounterValue, float64(n.Failed))
	out <- prometheus.MustNewConstMetric(c.build, prometheus.GaugeValue, 1, c.sources.Version)
	out <- prometheus.MustNewConstMetric(c.unsafe, prometheus.GaugeValue, gauge(c.sources.UnsafeNoHistory))
}

// levels counts findings, by every level there is.
func levels(found []model.Finding) map[model.Level]int {
	n := map[model.Level]int{model.LevelOK: 0, model.LevelWarn: 0, model.LevelUnsafe: 0, model.LevelUnknown: 0}
	for _, f := range found {
		n[f.Level]++
	}
	return n
}

func gauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
