package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("connection refused")

// recording is a Tracer whose spans are kept.
func recording() (*Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	return &Tracer{provider: provider, tracer: provider.Tracer("test")}, spans
}

// only is the one span there is.
func only(t *testing.T, spans *tracetest.InMemoryExporter) tracetest.SpanStub {
	t.Helper()
	all := spans.GetSpans()
	if len(all) != 1 {
		t.Fatalf("%d spans, want 1", len(all))
	}
	spans.Reset()
	return all[0]
}

// value is that of an attribute, nil without it.
func value(span tracetest.SpanStub, key attribute.Key) any {
	for _, a := range span.Attributes {
		if a.Key == key {
			return a.Value.AsInterface()
		}
	}
	return nil
}

// wantSpan checks what all spans of stores have in common.
func wantSpan(t *testing.T, span tracetest.SpanStub, name, store string, err error) {
	t.Helper()
	if span.Name != name || value(span, storeKey) != store {
		t.Errorf("span %q of %v, want %q of %q", span.Name, value(span, storeKey), name, store)
	}
	failed := span.Status.Code == codes.Error && err != nil && strings.Contains(span.Status.Description, err.Error())
	if err == nil && span.Status.Code != codes.Unset || err != nil && !failed {
		t.Errorf("%s: status %+v, want that of %v", name, span.Status, err)
	}
}

// logTo is a log that a test reads while others write.
type logTo struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logTo) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// count is in how many lines a text is.
func (l *logTo) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *logTo) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// parented is a context within a span.
func parented(t *testing.T, tracer *Tracer) (context.Context, func()) {
	t.Helper()
	ctx, span := tracer.tracer.Start(t.Context(), "parent")
	return ctx, func() { span.End() }
}
