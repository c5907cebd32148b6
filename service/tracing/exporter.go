package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// sendTimeout bounds one call of the receiver.
	sendTimeout = 5 * time.Second
	// The pauses between the tries of one batch, and for how long it is tried; a
	// collector that restarts is back by then. Meanwhile the queue fills.
	firstPause, longestPause, tryFor = 500 * time.Millisecond, 2 * time.Second, 5 * time.Second
)

// exporter sends spans. It tells once that it cannot, and once that it can again.
// Its calls come one after the other.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	lost int // spans since it cannot
}

func newExporter(opts Options) (*exporter, error) {
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
	return &exporter{SpanExporter: sender, log: opts.Log}, nil
}

// receiver completes the URL of one.
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

// ExportSpans implements sdktrace.SpanExporter. What cannot be sent is given up; the
// caller would only tell of it, for every batch.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err == nil && e.lost > 0:
		e.log.Info("spans are sent again", "lost", e.lost)
		e.lost = 0
	case err != nil && e.lost == 0:
		e.log.Warn("spans cannot be sent and are given up; nothing else suffers: look at tracing.endpoint", "error", clip(err.Error()))
	}
	if err != nil {
		e.lost += len(spans)
	}
	return nil
}
