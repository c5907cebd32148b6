// Package metrics shows the counters of the services to Prometheus. It keeps
// none of its own: each scrape reads them where they are.
package metrics

import (
	"net/http"

	"shardid/service/health"
	"shardid/service/queue"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Sources are what is shown. The functions must be safe for concurrent use; all
// fields are required but those of the modes beside the queue.
type Sources struct {
	Version string
	// UnsafeNoHistory: the lists are served although their Redis may hide that it
	// went back in time.
	UnsafeNoHistory bool

	Queue      func() queue.Stats
	Conditions func() []health.Condition
	Answers    func() map[int]int64 // by code of the error table; 0 is IDs served

	// The other modes; nil for one that is disabled.
	Segment   *Segment
	Snowflake func() Snowflake
	UID       func() UID
}

// Handler serves the metrics in Prometheus' text format.
func Handler(s Sources) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(s))
	if s.Segment != nil {
		registry.MustRegister(newSegment(*s.Segment))
	}
	if s.Snowflake != nil {
		registry.MustRegister(newSnowflake(s.Snowflake))
	}
	if s.UID != nil {
		registry.MustRegister(newUID(s.UID))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
