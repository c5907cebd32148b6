package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shardid/service/httpapi"
	"shardid/service/issuer"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	// sendTimeout bounds one call of the receiver.
	sendTimeout = 5 * time.Second
	// The pauses between the tries of one batch, and for how long it is tried; a
	// collector that restarts is back by then. Meanwhile the queue fills.
	firstPause, longestPause, tryFor = 500 * time.Millisecond, 2 * time.Second, 5 * time.Second
	// flushTimeout bounds how long Stop waits for the receiver: the spans of the last
	// seconds are not worth a slow restart.
	flushTimeout = 2 * time.Second
)

const (
	codeKey    = attribute.Key("shardid.code") // of the error table, of the answer to a request
	commandKey = attribute.Key("shardid.command")
	modeKey    = attribute.Key("shardid.mode")
)

// TracerOptions are the options of a Tracer; all are required.
type TracerOptions struct {
	// Endpoint is the URL of an OTLP/HTTP receiver; one without a path means
	// /v1/traces.
	Endpoint string
	// SampleRatio is the share, 0…1, of the traces that begin here and are recorded.
	// Traces that began elsewhere are recorded as was decided there, except that 0
	// records nothing: no caller can switch on what the operator has not.
	SampleRatio float64
	Version     string // of the program
	Instance    string // names this process and no other
	Log         *slog.Logger
}

// Tracer makes spans and sends them. A receiver that is away or hangs costs spans and
// nothing else: they wait in a queue of bounded length, and callers never wait for it. Safe
// for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	exporter *exporter
	tracer   trace.Tracer
	log      *slog.Logger
}

// StartTracer begins to send what will be recorded; the receiver may be away. Headers,
// certificates and further attributes come from OpenTelemetry's own environment variables;
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override the attributes of the process.
func StartTracer(opts TracerOptions) (*Tracer, error) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		opts.Log.Debug("tracing", "error", clip(err.Error()))
	}))
	target, err := receiver(opts.Endpoint)
	if err != nil {
		return nil, err
	}
	sender, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(target),
		otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: tryFor,
		}))
	if err != nil {
		return nil, fmt.Errorf("prepare to send spans: %w", err)
	}
	process := resource.NewSchemaless(semconv.ServiceName("shardid"),
		semconv.ServiceVersion(opts.Version), semconv.ServiceInstanceID(opts.Instance))
	if process, err = resource.Merge(process, resource.Environment()); err != nil {
		return nil, fmt.Errorf("describe this process for tracing: %w", err)
	}
	t := &Tracer{exporter: &exporter{SpanExporter: sender, log: opts.Log}, log: opts.Log}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(t.exporter),
		sdktrace.WithResource(process),
		sdktrace.WithSampler(sampler(opts.SampleRatio)),
	)
	t.tracer = t.provider.Tracer("shardid")
	return t, nil
}

// receiver completes the URL of a receiver.
func receiver(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("tracing endpoint: %w", err)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// sampler decides what is recorded, see TracerOptions.SampleRatio.
func sampler(ratio float64) sdktrace.Sampler {
	if ratio == 0 {
		return sdktrace.NeverSample()
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))
}

// Stop sends the spans that are left, for no longer than flushTimeout or ctx. It may be
// called twice.
func (t *Tracer) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last spans were not sent", "error", clip(err.Error()))
	}
	// Ends a call in flight; its error repeats the one above.
	_ = t.exporter.Shutdown(ctx)
}

// Request begins the span of a request for a route, "" for none. It continues the trace
// that the request's traceparent names.
func (t *Tracer) Request(r *http.Request, route string) httpapi.Trace {
	method := "_OTHER" // OpenTelemetry's name for methods that a caller made up
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		method = r.Method
	}
	name := method
	if route != "" {
		name += " " + route
	}
	w3c := propagation.TraceContext{}
	parent := w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(parent, name, trace.WithSpanKind(trace.SpanKindServer))
	began := httpapi.Trace{
		Context: ctx, ID: span.SpanContext().TraceID().String(),
		End: func(status, code int) { endRequest(span, status, code) },
	}
	if span.IsRecording() {
		span.SetAttributes(semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route))
		out := propagation.MapCarrier{}
		w3c.Inject(ctx, out)
		began.Parent = out.Get("traceparent")
	}
	return began
}

// endRequest ends the span of a request. The span has failed only from status 500 on, as
// OpenTelemetry's conventions say.
func endRequest(span trace.Span, status, code int) {
	if span.IsRecording() {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status), codeKey.Int(code))
	}
	if status >= http.StatusInternalServerError {
		span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Command begins the span of a Redis client's command for IDs of a mode, "" for none. It
// returns the context of what is done for it, the ID of its trace, and what ends the span
// with the code of the answer.
func (t *Tracer) Command(ctx context.Context, command, mode string) (traced context.Context, id string, end func(code int)) {
	name := command
	if mode != "" {
		name += " " + mode
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		span.SetAttributes(semconv.NetworkProtocolName("resp"), commandKey.String(command), modeKey.String(mode))
	}
	return ctx, span.SpanContext().TraceID().String(), func(code int) {
		span.SetAttributes(codeKey.Int(code))
		if issuer.Failed(code) {
			span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(code)))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// Refill begins the span of a refill pass over so many lists, and returns the context of
// its steps and what ends it.
func (t *Tracer) Refill(ctx context.Context, lists int) (context.Context, func()) {
	ctx, span := t.tracer.Start(ctx, "refill")
	span.SetAttributes(listsKey.Int(lists))
	return ctx, func() { span.End() }
}

// exporter sends spans. It logs once that it cannot, and once that it can again. Its calls
// come one after the other.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	lost int // spans given up since sending fails
}

// ExportSpans implements sdktrace.SpanExporter. It gives up spans that cannot be sent and
// returns no error, as the caller would only log it, for every batch.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err == nil && e.lost > 0:
		e.log.Info("spans are sent again", "lost", e.lost)
		e.lost = 0
	case err != nil && e.lost == 0:
		e.log.Warn("spans cannot be sent and are given up; nothing else suffers: look at tracing.endpoint",
			"error", clip(err.Error()))
	}
	if err != nil {
		e.lost += len(spans)
	}
	return nil
}

// clip keeps text that others wrote, such as the page of a proxy, from filling a line.
func clip(text string) string {
	const most = 300 // bytes
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
