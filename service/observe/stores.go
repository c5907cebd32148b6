// Package observe exports Prometheus metrics and OpenTelemetry spans.
//
//	stores.go     span, latency and errors of each call of a store, and the sender of all spans
//	metrics.go    the text of /metrics
//
// The number of series is bounded: no label has a value that a caller chose. No span holds
// a gatePass, a token or an ID.
package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"shardid/service/background"
	"shardid/service/metric"
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

// flushTimeout bounds how long Stop waits for the receiver: the spans of the last seconds are not
// worth a slow restart.
const flushTimeout = 2 * time.Second

// Tracer makes spans and sends them. A receiver that is unreachable or hangs costs spans and
// nothing else: they wait in a queue of bounded length, and callers never wait for it. Safe
// for concurrent use.
type Tracer struct {
	trace.Tracer
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

// StartTracer begins to send what will be recorded, to an OTLP/HTTP receiver that may be unreachable. Its
// address, the sampling and everything else comes from OpenTelemetry's own environment variables.
// Without an address, or where they switch tracing off, it gives nil.
func StartTracer(version string, log *slog.Logger) (*Tracer, error) {
	receiver := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if receiver == "" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") ||
		os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil //nolint:nilnil // tracing is off
	}
	lost := background.RateLimitedLog{Logger: log, Every: time.Minute, Burst: 1}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		lost.Log(slog.LevelWarn, "look at OTEL_EXPORTER_OTLP_ENDPOINT: spans may be lost, and nothing else suffers",
			"error", fmt.Sprintf("%.300s", err))
	}))
	sender, err := otlptracehttp.New(context.Background())
	if err != nil {
		return nil, fmt.Errorf("prepare to send spans: %w", err)
	}
	host, _ := os.Hostname() // "" when the system does not tell
	process := resource.NewSchemaless(semconv.ServiceName("shardid"), semconv.ServiceVersion(version),
		semconv.ServiceInstanceID(fmt.Sprintf("%s-%d", host, os.Getpid())))
	if process, err = resource.Merge(process, resource.Environment()); err != nil {
		return nil, fmt.Errorf("describe this process for tracing: %w", err)
	}
	spans := validating{sdktrace.NewBatchSpanProcessor(sender)}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithResource(process))
	return &Tracer{provider.Tracer("shardid"), provider, log}, nil
}

// Stop sends the spans that are left, for no longer than flushTimeout or ctx. It may be called twice.
func (t *Tracer) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans were not sent", "error", fmt.Sprintf("%.300s", err))
	}
	return nil
}

// validating makes the texts of clients UTF-8: a batch of spans with another one is lost whole.
type validating struct{ sdktrace.SpanProcessor }

// OnStart implements sdktrace.SpanProcessor.
func (v validating) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	for _, a := range s.Attributes() {
		if text := a.Value.AsString(); !utf8.ValidString(text) {
			s.SetAttributes(a.Key.String(strings.ToValidUTF8(text, "\uFFFD")))
		}
	}
	v.SpanProcessor.OnStart(ctx, s)
}
