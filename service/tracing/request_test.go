package tracing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const (
	trace1  = "0af7651916cd43dd8448eb211c80319c"
	parent1 = "00-" + trace1 + "-b7ad6b7169203331-0"
)

// A request's span tells route, status and code, and nothing of the query.
func TestRequest(t *testing.T) {
	for _, c := range []struct {
		method, route, name string
		status, code        int
		failed              bool
	}{
		{"GET", "/get", "GET /get", 200, 0, false},
		{"GET", "/get", "GET /get", 404, -2, false},
		{"GET", "/get", "GET /get", 503, -4, true},
		{"PATCH", "", "PATCH", 404, -10, false},
		{"BREW", "/get", "_OTHER /get", 405, -10, false},
	} {
		tracer, spans := recording()
		r := httptest.NewRequest(c.method, "/get?appId=1&gatePass=alice", nil)
		tracer.Request(r, c.route).End(c.status, c.code)
		span := only(t, spans)
		if span.Name != c.name || value(span, semconv.HTTPResponseStatusCodeKey) != int64(c.status) || value(span, codeKey) != int64(c.code) || value(span, semconv.HTTPRouteKey) != c.route {
			t.Errorf("%+v: %q %v", c, span.Name, span.Attributes)
		}
		if (span.Status.Code == codes.Error) != c.failed {
			t.Errorf("%+v: status %v", c, span.Status)
		}
		if text := fmt.Sprintf("%+v", span); strings.Contains(text, "alice") {
			t.Errorf("the span tells the gatePass: %s", text)
		}
	}
}

// A trace that began elsewhere goes on here, and is recorded if it is there.
func TestRequestGoesOn(t *testing.T) {
	for _, c := range []struct {
		given    string
		ratio    float64
		recorded bool
		same     bool
	}{
		{parent1 + "1", 0.01, true, true},
		{parent1 + "1", 0, false, true},
		{parent1 + "0", 1, false, true},
		{"", 1, true, false},
		{"", 0, false, false},
		{"00-nonsense-01", 1, true, false},
	} {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler(c.ratio)))
		tracer := &Tracer{provider: provider, tracer: provider.Tracer("test")}
		r := httptest.NewRequest(http.MethodGet, "/get", nil)
		r.Header.Set("traceparent", c.given)
		got := tracer.Request(r, "/get")
		got.End(200, 0)
		if len(got.ID) != 32 || (got.ID == trace1) != c.same {
			t.Errorf("%+v: trace %s", c, got.ID)
		}
		if want := "00-" + got.ID + "-"; (got.Parent != "") != c.recorded || c.recorded && (!strings.HasPrefix(got.Parent, want) || !strings.HasSuffix(got.Parent, "-01") || strings.Contains(got.Parent, "b7ad6b7169203331")) {
			t.Errorf("%+v: parent %q", c, got.Parent)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	for name, ratio := range map[string]float64{"not recorded": 0, "recorded": 1} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler(ratio)))
			tracer := &Tracer{provider: provider, tracer: provider.Tracer("test")}
			r := httptest.NewRequest(http.MethodGet, "/get", nil)
			b.ReportAllocs()
			for b.Loop() {
				tracer.Request(r, "/get").End(200, 0)
			}
		})
	}
}
