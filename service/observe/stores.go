// Package observe exports Prometheus metrics and OpenTelemetry spans.
//
//	stores.go     span, latency and errors of each call of a store
//	metrics.go    the text of /metrics
//	tracing.go    the sender of all spans
//
// The number of series is bounded: no label has a value that a caller chose. No span holds
// a gatePass, a token or an ID.
package observe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// storeKey is the name of a store in metrics and spans.
const storeKey = attribute.Key("shardid.store")

// Stores watches the calls of the stores: each is timed, its failures are counted, and it has a span
// when tracing is on. Safe for concurrent use.
type Stores struct {
	tracer *Tracer
	took   *prometheus.HistogramVec
	failed *prometheus.CounterVec
}

// NewStores has seen no calls yet. tracer is nil when tracing is off; registry exports what is counted.
func NewStores(tracer *Tracer, registry prometheus.Registerer) *Stores {
	labels := []string{"store", "operation"}
	return &Stores{
		tracer: tracer,
		took: promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
			Name: "shardid_store_operation_seconds", Buckets: metric.Buckets(),
			Help: "How long calls of the stores took, failed ones too.",
		}, labels),
		failed: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
			Name: "shardid_store_errors_total",
			Help: "Calls of the stores that failed; a refusal that is an answer, such as a " +
				"limit that is reached, is none.",
		}, labels),
	}
}

// Observe is a model.Observe.
func (s *Stores) Observe(ctx context.Context, store, op string) (context.Context, func(error)) {
	failed := s.failed.WithLabelValues(store, op) // also makes its series, so that the first failure is a rise
	var span trace.Span
	if s.tracer != nil {
		ctx, span = s.tracer.Start(ctx, op, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(storeKey.String(store)))
	}
	began := time.Now()
	return ctx, func(failure error) {
		s.took.WithLabelValues(store, op).Observe(time.Since(began).Seconds())
		if failure != nil {
			failed.Inc()
		}
		if span == nil {
			return
		}
		if failure != nil {
			span.SetStatus(codes.Error, strings.ToValidUTF8(fmt.Sprintf("%.300s", failure), "\uFFFD"))
		}
		span.End()
	}
}
