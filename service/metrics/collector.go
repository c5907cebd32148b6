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
}

func newCollector(s Sources) *collector {
	return &collector{
		sources:   s,
		condition: prometheus.NewDesc("shardid_condition_ok", "Whether something the service depends on works: 1 or 0.", []string{"name"}, nil),
		answers:   prometheus.NewDesc("shardid_http_answers_total", "Answers by code of the error table: 0 is IDs served, the others are errors of every path.", []string{"code"}, nil),
		build:     prometheus.NewDesc("shardid_build_info", "Always 1; the version is the label.", []string{"version"}, nil),
		unsafe:    prometheus.NewDesc("shardid_unsafe_no_history", "Whether redis.unsafe_no_history is set: 1 or 0. With 1 IDs can repeat.", nil, nil),
		settings:  prometheus.NewDesc("shardid_store_settings", "Settings of the stores by what shardid doctor says of them: ok, warn, unsafe or unknown.", []string{"level"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.condition, c.answers, c.build, c.unsafe, c.settings} {
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
