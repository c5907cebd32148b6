// Package metric makes the counters of the services. A counter is a Prometheus metric where it is counted, and
// its registry is what everybody else reads: /metrics, alarms, charts and tests.
package metric

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
)

// Counter makes a counter that registry exports; with a nil registry nothing does. A name is registered
// once: a second one of the same name in a registry panics.
func Counter(registry prometheus.Registerer, name, help string) prometheus.Counter {
	return promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// CounterOf has registry export what is counted elsewhere; read is called by several goroutines at once.
func CounterOf(registry prometheus.Registerer, name, help string, read func() int64) {
	promauto.With(registry).NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
		func() float64 { return float64(read()) })
}

// Gauge has registry export what read gives at each scrape; read is called by several goroutines at once.
func Gauge(registry prometheus.Registerer, name, help string, read func() float64) {
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

// Buckets are the upper bounds, in seconds, of the buckets of all histograms, which have one more without a bound: from
// 50 µs, where an ID that the process holds is answered, to 5 s, which is longer than any timeout of the default
// configuration.
func Buckets() []float64 {
	return []float64{
		50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5,
	}
}

// Sums adds metrics up that were gathered: by name, and by name{label="value"} for each of their labels. Of a histogram
// it is how often it counted, by name_count. A metric that is not there has no value, which is not 0.
func Sums(families []*dto.MetricFamily) map[string]float64 {
	sums := map[string]float64{}
	for _, family := range families {
		name := family.GetName()
		if family.GetType() == dto.MetricType_HISTOGRAM {
			name += "_count"
		}
		for _, m := range family.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			sums[name] += value
			for _, label := range m.GetLabel() {
				sums[fmt.Sprintf("%s{%s=%q}", name, label.GetName(), label.GetValue())] += value
			}
		}
	}
	return sums
}
