//go:build unix

package stories_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"shardid/scripts/check"
)

// receiver takes spans as a collector does.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*trace.Span
	resource map[string]string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{resource: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if req.URL.Path != "/v1/traces" || err != nil || proto.Unmarshal(raw, &sent) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			r.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// named are the spans of a name that were received so far.
func (r *receiver) named(name string) (found []*trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// text is an attribute of a span as text, "" without it.
func text(s *trace.Span, key string) string {
	i := slices.IndexFunc(s.Attributes, func(a *common.KeyValue) bool { return a.Key == key })
	if i < 0 {
		return ""
	}
	return strings.Trim(s.Attributes[i].Value.String()[strings.Index(s.Attributes[i].Value.String(), ":")+1:], `"`)
}

// tracedTo are settings that send every trace to a receiver.
func tracedTo(url string) settings {
	return settings{"OTEL_EXPORTER_OTLP_ENDPOINT": url}
}

// TestTracing: a collector gets the spans of requests and of what was asked of the
// stores, in the caller's trace where there is one, and nothing of whom an ID is for.
func TestTracing(t *testing.T) {
	check.Deep(t)
	story(t)
	r := newReceiver(t)
	d := serve(t, tracedTo(r.URL).With(settings{"RESP_ADDR": "127.0.0.1:0", "LOG_ACCESS": "all"}), "--demo")
	eventually(t, startLimit, "served", func() bool { return d.get("/get?appId=1&gatePass=someone").status == 200 })
	eventually(t, startLimit, "every mode", func() bool {
		return d.get("/api/segment/get/leaf-segment-test").status == 200 &&
			d.get("/api/snowflake/get/x").status == 200 &&
			d.get("/api/uid/get").status == 200
	})
	const traced = "0af7651916cd43dd8448eb211c80319c"
	a, err := d.do(http.MethodGet, "/get?appId=9&gatePass=someone", "traceparent", "00-"+traced+"-b7ad6b7169203331-01")
	if err != nil || a.status != 404 || a.header.Get("X-Request-Id") != traced {
		t.Errorf("%v %d %v", err, a.status, a.header)
	}
	c := redis.NewClient(&redis.Options{Addr: d.respAddr(), MaxRetries: -1})
	defer c.Close()
	id, err := c.Incr(t.Context(), "queue:1:someone").Result()
	wrong := c.Incr(t.Context(), "queue:9:someone").Err()
	if err != nil || id == 0 || wrong == nil || !strings.HasPrefix(wrong.Error(), "SHARDID -2") {
		t.Errorf("%d, %v, %v", id, err, wrong)
	}
	c.Incr(t.Context(), "nothing")
	for _, line := range []string{`shardid_resp_answers_total{code="0"} 1`, `shardid_resp_answers_total{code="-6"} 1`} {
		if !strings.Contains(d.get("/metrics").body, "\n"+line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	d.stops(syscall.SIGTERM, 15*time.Second)
	wantStopped(t, d)
	if lines := d.Lines(`"path":"queue:9"`); len(lines) != 1 || !strings.Contains(lines[0], `"trace_id":"`) {
		t.Errorf("the refused command in the log: %q", lines)
	}
	commands := r.named("INCR queue")
	if len(commands) != 2 || text(commands[1], "shardid.code") != "-2" || text(commands[0], "shardid.mode") != "queue" {
		t.Errorf("commands %v", commands)
	}
	checkSpans(t, r)
	checkRefill(t, r)
}

// checkSpans: what the spans of requests and of the process tell.
func checkSpans(t *testing.T, r *receiver) {
	t.Helper()
	requests := r.named("GET /get")
	i := slices.IndexFunc(requests, func(s *trace.Span) bool { return len(s.ParentSpanId) > 0 })
	if i < 0 {
		t.Fatalf("none of %d requests is of the caller's trace", len(requests))
	}
	if s := requests[i]; text(s, "http.route") != "/get" || text(s, "http.response.status_code") != "404" ||
		text(s, "shardid.code") != "-2" || s.Kind != trace.Span_SPAN_KIND_SERVER {
		t.Errorf("request %v", s)
	}
	for _, name := range []string{"allocate a segment", "get a worker ID", "store worker ID", "load the lists"} {
		if found := r.named(name); len(found) == 0 || text(found[0], "shardid.store") != "database" {
			t.Errorf("%s: %v", name, found)
		}
	}
	if r.resource["service.name"] != "shardid" || r.resource["service.version"] == "" ||
		r.resource["service.instance.id"] == "" {
		t.Errorf("resource %v", r.resource)
	}
	for _, s := range r.spans {
		if strings.Contains(s.String(), "someone") || strings.Contains(s.Name, "livez") ||
			strings.Contains(s.Name, "readyz") {
			t.Errorf("span %v", s)
		}
	}
}

// checkRefill: a pass has its steps below it; lists in the process have no spans.
func checkRefill(t *testing.T, r *receiver) {
	t.Helper()
	steps := r.named("allocate")
	if len(steps) == 0 || text(steps[0], "shardid.store") != "database" {
		t.Fatalf("steps %v", steps)
	}
	pass := steps[0].ParentSpanId
	isPass := func(s *trace.Span) bool { return string(s.SpanId) == string(pass) && len(s.ParentSpanId) == 0 }
	if !slices.ContainsFunc(r.named("refill"), isPass) {
		t.Error("the pass has no span")
	}
}
