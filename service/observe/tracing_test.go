package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardid/scripts/check"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// sendingTo is a Tracer that sends to a receiver, whose address comes from the environment, and its log.
func sendingTo(t *testing.T, receiver http.HandlerFunc) (*Tracer, *check.Log) {
	t.Helper()
	server := httptest.NewServer(receiver)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	log := &check.Log{}
	tracer, err := StartTracer("v1", slog.New(slog.NewTextHandler(log, nil)))
	check.Must(t, err)
	t.Cleanup(func() { check.OK(t, tracer.Stop(context.Background())) })
	return tracer, log
}

// request has a Tracer make a span of a request.
func request(tracer *Tracer) {
	agent := trace.WithAttributes(semconv.UserAgentOriginal("curl\xff"))
	_, span := tracer.Start(context.Background(), "GET /get", agent)
	span.End()
}

// What was recorded is sent before the end, once, whatever texts clients and stores gave. OpenTelemetry's own variables
// hold, so that credentials need no key of ours.
func TestStopSendsTheRest(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20sesame")
	t.Setenv("OTEL_SERVICE_NAME", "ids")
	got := make(chan []string, 9)
	tracer, log := sendingTo(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- []string{r.URL.Path, r.Header.Get("Authorization"), string(body)}
	})
	request(tracer)
	_, ended := NewStores(tracer, nil).Observe(t.Context(), "redis", "pop")
	ended(errors.New("lost\xff"))
	check.OK(t, tracer.Stop(t.Context()))
	check.OK(t, tracer.Stop(t.Context()))
	if len(got) != 1 {
		t.Fatalf("%d calls", len(got))
	}
	if sent := <-got; sent[0] != "/v1/traces" || sent[1] != "Bearer sesame" ||
		!strings.Contains(sent[2], "service.name\x12\x05\n\x03ids") ||
		!strings.Contains(sent[2], "service.instance.id") ||
		!strings.Contains(sent[2], "curl\uFFFD") || !strings.Contains(sent[2], "lost\uFFFD") {
		t.Errorf("sent %q", sent)
	}
	check.Equal(t, log.Count("\n"), 0, "lines")
}

// A receiver that hangs does not hold up the end.
func TestHangingReceiver(t *testing.T) {
	free := make(chan struct{})
	tracer, log := sendingTo(t, func(http.ResponseWriter, *http.Request) { <-free })
	defer close(free)
	request(tracer)
	check.OK(t, tracer.Stop(t.Context()))
	check.Equal(t, log.Count("the last spans were not sent"), 1, "lines")
}

// Tracing is off without a receiver, and where the environment says so.
func TestTracingIsOff(t *testing.T) {
	for name, env := range map[string][2]string{
		"no receiver": {"OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		"disabled":    {"OTEL_SDK_DISABLED", "true"},
		"no exporter": {"OTEL_TRACES_EXPORTER", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
			t.Setenv(env[0], env[1])
			if tracer, err := StartTracer("v1", slog.New(slog.DiscardHandler)); tracer != nil || err != nil {
				t.Errorf("%v, %v", tracer, err)
			}
		})
	}
}

// recording is a Tracer that keeps its spans.
func recording() (*Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	return &Tracer{Tracer: provider.Tracer("test"), provider: provider}, spans
}

// values are the attributes of a span.
func values(span tracetest.SpanStub) map[attribute.Key]any {
	all := map[attribute.Key]any{}
	for _, a := range span.Attributes {
		all[a.Key] = a.Value.AsInterface()
	}
	return all
}

// A call of a store is timed, and counted when it failed; its span is below that of its context.
func TestCallsAreObserved(t *testing.T) {
	for name, failure := range map[string]error{"answer": nil, "failure": errors.New("connection refused")} {
		t.Run(name, func(t *testing.T) {
			tracer, spans := recording()
			failures := 0.0
			if failure != nil {
				failures = 1
			}
			for _, s := range []*Stores{NewStores(tracer, nil), NewStores(nil, nil)} {
				ctx, parent := tracer.Start(t.Context(), "parent")
				_, end := s.Observe(ctx, "redis", "pop")
				end(failure)
				parent.End()
				check.Equal(t, testutil.CollectAndCount(s.took), 1, "series of calls")
				check.Equal(t, testutil.ToFloat64(s.failed.WithLabelValues("redis", "pop")), failures, "failures")
			}
			all := spans.GetSpans()
			if len(all) != 3 { // the second call has none
				t.Fatalf("%d spans", len(all))
			}
			pop, parent := all[0], all[1]
			if pop.Name != "pop" || values(pop)[storeKey] != "redis" ||
				pop.Parent.SpanID() != parent.SpanContext.SpanID() ||
				(pop.Status.Code == codes.Error) != (failure != nil) {
				t.Errorf("%+v below %+v", pop, parent)
			}
		})
	}
}
