// Package metrics shows the counters of the services to Prometheus: each scrape reads
// them where they are. It keeps those of the stores' calls itself, see Stores.
//
// The number of series is bounded: no label has a value that a caller chose.
package metrics

import (
	"bytes"
	"context"
	"fmt"

	"shardid/model"
	"shardid/service/queue"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
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
	Conditions func() []model.Condition
	Answers    func() map[int]int64      // by code of the error table; 0 is IDs served
	Traffic    func() map[string]Traffic // of the ID routes, by mode
	// Settings are what the stores said of theirs, when last asked.
	Settings func() []model.Finding
	Stores   *Stores
	// Connections are those of clients.
	Connections func() Connections

	// The other modes; nil for one that is disabled.
	Segment   *Segment
	Snowflake func() Snowflake
	UID       func() UID
}

// Text reads the metrics in Prometheus' text format. What it gives is safe for concurrent
// use.
func Text(s Sources) func(context.Context) ([]byte, error) {
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
