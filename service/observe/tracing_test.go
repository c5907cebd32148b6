package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
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
		if len(spans.GetSpans()) != 1 {
			t.Fatalf("%+v: %d spans", c, len(spans.GetSpans()))
		}
		span := spans.GetSpans()[0]
		got := values(span)
		if span.Name != c.name || got[semconv.HTTPRouteKey] != c.route || got[codeKey] != int64(c.code) ||
			got[semconv.HTTPResponseStatusCodeKey] != int64(c.status) ||
			(span.Status.Code == codes.Error) != c.failed {
			t.Errorf("%+v: %q %v, status %v", c, span.Name, got, span.Status)
		}
		check.Lacks(t, fmt.Sprintf("%+v", span), "alice", "the gatePass in a span")
	}
}

// A command's span tells the mode and the code; it has failed when the replica has.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		command, mode, name string
		code                int
		failed              bool
	}{
		{"INCR", "queue", "INCR queue", 0, false},
		{"LPOP", "segment", "LPOP segment", -2, false},
		{"LPOP", "uid", "LPOP uid", -8, true},
		{"INCR", "", "INCR", -6, false},
	} {
		tracer, spans := recording()
		ctx, id, end := tracer.Command(t.Context(), c.command, c.mode)
		_, inner := tracer.tracer.Start(ctx, "inner")
		inner.End()
		end(c.code)
		if len(spans.GetSpans()) != 2 {
			t.Fatalf("%+v: %d spans", c, len(spans.GetSpans()))
		}
		span := spans.GetSpans()[1]
		got := values(span)
		if span.Name != c.name || got[commandKey] != c.command || got[modeKey] != c.mode || got[codeKey] != int64(c.code) ||
			(span.Status.Code == codes.Error) != c.failed || spans.GetSpans()[0].Parent.TraceID().String() != id {
			t.Errorf("%+v: %q %v, status %v", c, span.Name, got, span.Status)
		}
	}
}

// A trace that began elsewhere goes on here, and is recorded if it is there.
func TestRequestGoesOn(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	const parent = "00-" + trace + "-b7ad6b7169203331-0"
	for _, c := range []struct {
		given    string
		ratio    float64
		recorded bool
		same     bool
	}{
		{parent + "1", 0.01, true, true},
		{parent + "1", 0, false, true},
		{parent + "0", 1, false, true},
		{"", 1, true, false},
		{"", 0, false, false},
		{"00-nonsense-01", 1, true, false},
	} {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler(c.ratio)))
		tracer := &Tracer{tracer: provider.Tracer("test")}
		r := httptest.NewRequest(http.MethodGet, "/get", nil)
		r.Header.Set("traceparent", c.given)
		got := tracer.Request(r, "/get")
		got.End(200, 0)
		if len(got.ID) != 32 || (got.ID == trace) != c.same {
			t.Errorf("%+v: trace %s", c, got.ID)
		}
		own := strings.HasPrefix(got.Parent, "00-"+got.ID+"-") && strings.HasSuffix(got.Parent, "-01") &&
			!strings.Contains(got.Parent, "b7ad6b7169203331")
		if (got.Parent != "") != c.recorded || c.recorded && !own {
			t.Errorf("%+v: parent %q", c, got.Parent)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	for name, ratio := range map[string]float64{"not recorded": 0, "recorded": 1} {
		b.Run(name, func(b *testing.B) {
			provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler(ratio)))
			tracer := &Tracer{tracer: provider.Tracer("test")}
			r := httptest.NewRequest(http.MethodGet, "/get", nil)
			b.ReportAllocs()
			for b.Loop() {
				tracer.Request(r, "/get").End(200, 0)
			}
		})
	}
}

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

// wantLog checks how often each text was logged so far.
func wantLog(t *testing.T, l *check.Log, want map[string]int) {
	t.Helper()
	for text, n := range want {
		check.Equal(t, l.Count(text), n, text)
	}
}

// toReceiver is a Tracer that sends to a receiver, and its log.
func toReceiver(t *testing.T, h http.HandlerFunc) (*Tracer, *check.Log) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	log := &check.Log{}
	tracer, err := StartTracer(TracerOptions{
		Endpoint: server.URL, SampleRatio: 1, Version: "v1", Instance: "here-1",
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	check.Must(t, err)
	t.Cleanup(func() { tracer.Stop(context.Background()) })
	return tracer, log
}

// A receiver that refuses is logged once, and once that it takes spans again. What it
// answers is clipped.
func TestFailureIsLoggedOnce(t *testing.T) {
	var status atomic.Int32
	tracer, log := toReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(strings.Repeat("a page of a proxy", 100) + "the end"))
	})
	spans := tracetest.SpanStubs{{Name: "a"}, {Name: "b"}}.Snapshots()
	for _, c := range []struct {
		answers []int32
		want    map[string]int
	}{
		{[]int32{400, 400, 400}, map[string]int{"spans cannot be sent": 1, "\n": 1, "the end": 0}},
		{[]int32{200, 200}, map[string]int{`msg="spans are sent again" lost=6`: 1, "\n": 2}},
		{[]int32{400}, map[string]int{"spans cannot be sent": 2, "\n": 3}},
	} {
		for _, answer := range c.answers {
			status.Store(answer)
			check.OK(t, tracer.exporter.ExportSpans(t.Context(), spans))
		}
		wantLog(t, log, c.want)
	}
}

// What was recorded is sent before the end, once. OpenTelemetry's own variables hold, so
// that credentials need no key of ours.
func TestStopSendsTheRest(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20sesame")
	t.Setenv("OTEL_SERVICE_NAME", "ids")
	got := make(chan []string, 9)
	tracer, log := toReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- []string{r.URL.Path, r.Header.Get("Authorization"), string(body)}
	})
	tracer.Request(httptest.NewRequest(http.MethodGet, "/get", nil), "/get").End(200, 0)
	tracer.Stop(t.Context())
	tracer.Stop(t.Context())
	if len(got) != 1 {
		t.Fatalf("%d calls", len(got))
	}
	if sent := <-got; sent[0] != "/v1/traces" || sent[1] != "Bearer sesame" ||
		!strings.Contains(sent[2], "service.name\x12\x05\n\x03ids") || !strings.Contains(sent[2], "here-1") {
		t.Errorf("sent %q", sent)
	}
	wantLog(t, log, map[string]int{"\n": 0})
}

// A receiver that hangs holds up neither a request, with more spans than the queue has room
// for, nor the end.
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
	wantLog(t, log, map[string]int{"the last spans were not sent": 1})
	sending := func() bool {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return strings.Contains(stacks.String(), "batchSpanProcessor")
	}
	for sending() && time.Since(began) < 20*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	if sending() {
		t.Error("what is in the queue is still being sent")
	}
}
