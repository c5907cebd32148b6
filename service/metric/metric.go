// Package metric makes the counters of the services. A counter is a Prometheus metric where it is counted;
// alarms and charts read the same one.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
)

// Counter makes a counter that registry exports; with a nil registry nothing does. A name is registered
// once: a second one of the same name in a registry panics.
func Counter(registry prometheus.Registerer, name, help string) prometheus.Counter {
	return promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Value reads a counter, which must have counted in whole numbers.
func Value(c prometheus.Counter) int64 {
	var read dto.Metric
	if err := c.Write(&read); err != nil {
		return 0 // a counter's Write has no errors
	}
	return int64(read.GetCounter().GetValue())
}
