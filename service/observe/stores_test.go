package observe

import (
	"errors"
	"testing"

	"shardid/scripts/check"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

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
