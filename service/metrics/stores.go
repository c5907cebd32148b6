package metrics

import (
	"errors"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/latency"

	"github.com/prometheus/client_golang/prometheus"
)

// Stores counts the calls of the stores. Operations are added while the service is
// wired, and counted for ever after.
type Stores struct {
	operations []*Operation
	took       *prometheus.Desc
	failed     *prometheus.Desc
}

// NewStores has no operations yet.
func NewStores() *Stores {
	label := []string{"store", "operation"}
	return &Stores{
		took:   prometheus.NewDesc("shardid_store_operation_seconds", "How long calls of the stores took, failed ones too.", label, nil),
		failed: prometheus.NewDesc("shardid_store_errors_total", "Calls of the stores that failed; a refusal that is an answer, such as a limit that is reached, is none.", label, nil),
	}
}

// Operation is one kind of call of one store. Safe for concurrent use.
type Operation struct {
	store, name string
	took        latency.Histogram
	failed      atomic.Int64
}

// Operation adds one; both names are constants of the source. Not safe for concurrent
// use, nor while the metrics are served.
func (s *Stores) Operation(store, name string) *Operation {
	o := &Operation{store: store, name: name}
	s.operations = append(s.operations, o)
	return o
}

// Done counts a call that began then. err is how it ended: it counts as failed when the
// store could not be used, which *model.StoreError says.
func (o *Operation) Done(began time.Time, err error) {
	o.took.Observe(time.Since(began))
	if err != nil && isAway(err) {
		o.failed.Add(1)
	}
}

func isAway(err error) bool {
	var store *model.StoreError
	return errors.As(err, &store)
}

// Describe implements prometheus.Collector.
func (s *Stores) Describe(out chan<- *prometheus.Desc) {
	out <- s.took
	out <- s.failed
}

// Collect implements prometheus.Collector.
func (s *Stores) Collect(out chan<- prometheus.Metric) {
	for _, o := range s.operations {
		out <- histogram(s.took, o.took.Read(), o.store, o.name)
		out <- prometheus.MustNewConstMetric(s.failed, prometheus.CounterValue, float64(o.failed.Load()), o.store, o.name)
	}
}
