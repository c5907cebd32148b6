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

	"shardid/service/background"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

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
