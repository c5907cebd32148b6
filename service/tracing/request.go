package tracing

import (
	"net/http"
	"strconv"

	"shardid/service/httpapi"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// codeKey is the code of the error table that a request was answered with.
const codeKey = attribute.Key("shardid.code")

// Request begins the span of a request for a route, "" for none. It goes on with the
// trace that the request's traceparent names.
func (t *Tracer) Request(r *http.Request, route string) httpapi.Trace {
	method := known(r.Method)
	name := method
	if route != "" {
		name += " " + route
	}
	w3c := propagation.TraceContext{}
	ctx, span := t.tracer.Start(w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), name, trace.WithSpanKind(trace.SpanKindServer))
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

// endRequest ends the span of a request. Its error is ours only from 500 on, as
// OpenTelemetry's conventions have it.
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

// known keeps methods that a caller made up out of the names of spans.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "_OTHER" // as OpenTelemetry's conventions name it
}
