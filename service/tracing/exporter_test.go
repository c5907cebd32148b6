package tracing

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestReceiver(t *testing.T) {
	for given, want := range map[string]string{
		"http://10.0.0.1:4318":             "http://10.0.0.1:4318/v1/traces",
		"http://10.0.0.1:4318/":            "http://10.0.0.1:4318/v1/traces",
		"https://otel.example/api/ingress": "https://otel.example/api/ingress",
	} {
		if got, err := receiver(given); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", given, got, err, want)
		}
	}
}

// toReceiver is a Tracer that sends to a receiver, and its log.
func toReceiver(t *testing.T, h http.HandlerFunc) (*Tracer, *logTo) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	log := &logTo{}
	tracer, err := Start(Options{Endpoint: server.URL, SampleRatio: 1, Version: "v1", Instance: "here-1", Log: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracer.Stop(context.Background()) })
	return tracer, log
}

// A receiver that refuses is told of once, and once that it takes spans again.
func TestFailureIsToldOnce(t *testing.T) {
	var status atomic.Int32
	tracer, log := toReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(strings.Repeat("page of a proxy ", 100)))
	})
	spans := tracetest.SpanStubs{{Name: "a"}, {Name: "b"}}.Snapshots()
	export := func(answer int32) {
		status.Store(answer)
		if err := tracer.exporter.ExportSpans(t.Context(), spans); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		export(http.StatusBadRequest)
	}
	if log.count("spans cannot be sent") != 1 || log.count("\n") != 1 || log.count("page of a proxy") > 20 {
		t.Errorf("logged %s", log.text.String())
	}
	export(http.StatusOK)
	export(http.StatusOK)
	if log.count(`msg="spans are sent again" lost=6`) != 1 || log.count("\n") != 2 {
		t.Errorf("logged %s", log.text.String())
	}
	export(http.StatusBadRequest)
	if log.count("spans cannot be sent") != 2 {
		t.Errorf("logged %s", log.text.String())
	}
}

// What was recorded is sent before the end.
func TestStopSendsTheRest(t *testing.T) {
	var got atomic.Int64
	tracer, log := toReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" && r.ContentLength > 0 {
			got.Add(1)
		}
	})
	tracer.Request(httptest.NewRequest(http.MethodGet, "/get", nil), "/get").End(200, 0)
	tracer.Stop(t.Context())
	tracer.Stop(t.Context())
	if got.Load() != 1 || log.count("\n") != 0 {
		t.Errorf("%d calls, logged %s", got.Load(), log.text.String())
	}
}

// OpenTelemetry's own variables hold, so that credentials need no key of ours.
func TestVariablesOfOpenTelemetry(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20sesame")
	t.Setenv("OTEL_SERVICE_NAME", "ids")
	var auth, body atomic.Value
	tracer, _ := toReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		auth.Store(r.Header.Get("Authorization"))
		body.Store(string(raw))
	})
	tracer.Request(httptest.NewRequest(http.MethodGet, "/get", nil), "/get").End(200, 0)
	tracer.Stop(t.Context())
	sent, _ := body.Load().(string)
	if auth.Load() != "Bearer sesame" || !strings.Contains(sent, "service.name\x12\x05\n\x03ids") || !strings.Contains(sent, "here-1") {
		t.Errorf("%v, sent %q", auth.Load(), sent)
	}
}

// A receiver that hangs holds up nobody: neither who records, more than the queue
// has room for, nor the end.
func TestHangingReceiver(t *testing.T) {
	free := make(chan struct{})
	tracer, log := toReceiver(t, func(http.ResponseWriter, *http.Request) { <-free })
	defer close(free)
	began := time.Now()
	for range 3 * sdktrace.DefaultMaxQueueSize {
		tracer.Request(httptest.NewRequest(http.MethodGet, "/get", nil), "/get").End(200, 0)
	}
	recorded := time.Since(began)
	tracer.Stop(t.Context())
	if recorded > sendTimeout || time.Since(began) > recorded+flushTimeout+3*time.Second {
		t.Errorf("recorded in %v, ended in %v", recorded, time.Since(began))
	}
	if log.count("the last spans were not sent") != 1 {
		t.Errorf("logged %s", log.text.String())
	}
	for sending() && time.Since(began) < 20*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if sending() {
		t.Error("what is in the queue is still being sent")
	}
}

// sending says whether a goroutine still sends spans.
func sending() bool {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
	return strings.Contains(stacks.String(), "batchSpanProcessor")
}
