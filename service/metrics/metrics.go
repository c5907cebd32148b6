// Package metrics shows the counters of the services to Prometheus: each scrape reads
// them where they are. It keeps those of the stores' calls itself, see Stores.
//
// The number of series is bounded: no label has a value that a caller chose.
package metrics

import (
	"net/http"

	"shardid/model"
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
	Apps       func() []queue.View // as last seen: a scrape asks no store
	Conditions func() []health.Condition
	Answers    func() map[int]int64      // by code of the error table; 0 is IDs served
	Traffic    func() map[string]Traffic // of the ID routes, by mode
	// Settings are what the stores said of theirs, when last asked.
	Settings func() []model.Finding
	Stores   *Stores

	// The other modes; nil for one that is disabled.
	Segment   *Segment
	Snowflake func() Snowflake
	UID       func() UID
}

// Handler serves the metrics in Prometheus' text format.
func Handler(s Sources) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(s), newQueue(s.Queue, s.Apps), newTraffic(s.Traffic), s.Stores)
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
