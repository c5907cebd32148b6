package metrics

import (
	"shardid/service/latency"

	"github.com/prometheus/client_golang/prometheus"
)

// number is one metric without labels that is read from a sample of a mode.
type number[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
}

// timing is one histogram without labels that is read from a sample of a mode.
type timing[S any] struct {
	desc  *prometheus.Desc
	value func(S) latency.Reading
}

// numbers shows a sample of a mode at each scrape. further metrics, which have
// labels, may follow.
type numbers[S any] struct {
	sample  func() S
	list    []number[S]
	timings []timing[S]
	further prometheus.Collector // may be nil
}

// counter adds one that only rises; the name lacks its _total.
func (n *numbers[S]) counter(name, help string, value func(S) int64) {
	n.add(name+"_total", help, prometheus.CounterValue, func(s S) float64 { return float64(value(s)) })
}

func (n *numbers[S]) gauge(name, help string, value func(S) float64) {
	n.add(name, help, prometheus.GaugeValue, value)
}

func (n *numbers[S]) add(name, help string, kind prometheus.ValueType, value func(S) float64) {
	n.list = append(n.list, number[S]{prometheus.NewDesc(name, help, nil, nil), kind, value})
}

// histogram adds durations, in seconds.
func (n *numbers[S]) histogram(name, help string, value func(S) latency.Reading) {
	n.timings = append(n.timings, timing[S]{prometheus.NewDesc(name, help, nil, nil), value})
}

// Describe implements prometheus.Collector.
func (n *numbers[S]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range n.list {
		out <- m.desc
	}
	for _, m := range n.timings {
		out <- m.desc
	}
	if n.further != nil {
		n.further.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (n *numbers[S]) Collect(out chan<- prometheus.Metric) {
	s := n.sample()
	for _, m := range n.list {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
	for _, m := range n.timings {
		out <- histogram(m.desc, m.value(s))
	}
	if n.further != nil {
		n.further.Collect(out)
	}
}

// histogram is a reading as Prometheus has it, in seconds.
func histogram(desc *prometheus.Desc, r latency.Reading, labels ...string) prometheus.Metric {
	cumulative, n := make(map[float64]uint64, latency.Buckets), uint64(0)
	for i, bound := range latency.Bounds() {
		n += uint64(r.Counts[i])
		cumulative[bound.Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(desc, uint64(r.Count()), r.Sum.Seconds(), cumulative, labels...)
}
