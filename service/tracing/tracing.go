package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout bounds what a stop waits for the receiver: the spans of the last
// seconds are not worth a slow restart.
const flushTimeout = 2 * time.Second

// storeKey is which store a call is of, as the metrics name it.
const storeKey = attribute.Key("shardid.store")

// Options of a Tracer; all are required.
type Options struct {
	// Endpoint is the URL of an OTLP/HTTP receiver; one without a path means
	// /v1/traces.
	Endpoint string
	// SampleRatio is the share of traces that begin here and are recorded, 0…1. Of
	// those that began elsewhere it is decided there, but for 0: nothing is recorded.
	SampleRatio float64
	Version     string // of the program
	Instance    string // of this process, not that of any other
	Log         *slog.Logger
}

// Tracer makes spans and sends them. A nil Tracer wraps nothing. Safe for concurrent
// use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	exporter *exporter
	tracer   trace.Tracer
	log      *slog.Logger
}

// Start begins to send what will be recorded; the receiver may be away. Headers,
// certificates and further attributes come from OpenTelemetry's own environment
// variables, as they do for every program that uses it.
func Start(opts Options) (*Tracer, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		opts.Log.Debug("tracing", "error", clip(err.Error()))
	}))
	exporter, err := newExporter(opts)
	if err != nil {
		return nil, err
	}
	about, err := describe(opts)
	if err != nil {
		return nil, err
	}
	t := &Tracer{exporter: exporter, log: opts.Log}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sampler(opts.SampleRatio)),
	)
	t.tracer = t.provider.Tracer("shardid")
	return t, nil
}

// sampler decides what is recorded: what began elsewhere as it was decided there, and
// with the ratio 0 nothing, so that no caller can switch on what the operator has not.
func sampler(ratio float64) sdktrace.Sampler {
	if ratio == 0 {
		return sdktrace.NeverSample()
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))
}

// describe is what all spans of the process share; OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES win.
func describe(opts Options) (*resource.Resource, error) {
	own := resource.NewSchemaless(semconv.ServiceName("shardid"),
		semconv.ServiceVersion(opts.Version), semconv.ServiceInstanceID(opts.Instance))
	about, err := resource.Merge(own, resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describe this process for tracing: %w", err)
	}
	return about, nil
}

// Stop sends what is left, for no longer than flushTimeout or ctx. It may be called
// twice.
func (t *Tracer) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans were not sent", "error", clip(err.Error()))
	}
	// Ends a call in flight; it says no more than what has been said.
	_ = t.exporter.Shutdown(ctx)
}

// begin starts the span of a call of a store.
func (t *Tracer) begin(ctx context.Context, name, store string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(append(attrs, storeKey.String(store))...)
	}
	return ctx, span
}

// end ends a span. err is how what it is of went.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, clip(err.Error()))
	}
	span.End()
}

// first is the first failure of a call that answers for each of several lists.
func first[T any](answers []T, failure func(T) error) error {
	for _, a := range answers {
		if err := failure(a); err != nil {
			return fmt.Errorf("one of %d: %w", len(answers), err)
		}
	}
	return nil
}

// clip keeps what others wrote, such as the page of a proxy, from filling a line.
func clip(text string) string {
	const most = 300 // bytes
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
