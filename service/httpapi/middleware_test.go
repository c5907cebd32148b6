package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// An ID that can be used is shown again, with every answer; another one is replaced
// where an answer needs one, and is in no answer.
func TestRequestIDs(t *testing.T) {
	long := strings.Repeat("x", maxRequestID)
	for _, c := range []struct {
		name   string
		header []string
		want   string // "" for a new one
	}{
		{"none", nil, ""},
		{"longest", []string{"x-request-ID", long}, long},
		{"too long", []string{requestIDHeader, long + "x"}, ""},
		{"line end", []string{requestIDHeader, "a\r\nSet-Cookie: x"}, ""},
		{"beyond ASCII", []string{requestIDHeader, "é"}, ""},
		{"two", []string{requestIDHeader, "a", requestIDHeader, "b"}, ""},
	} {
		served := askAs(newAPI(), http.MethodGet, alice, c.header...).Header()[requestIDHeader]
		if c.want == "" && len(served) > 0 || c.want != "" && (len(served) != 1 || served[0] != c.want) {
			t.Errorf("%s: served with %q", c.name, served)
		}
		refused := askAs(newAPI(), http.MethodGet, "/get", c.header...).Header()[requestIDHeader]
		if len(refused) != 1 || c.want != "" && refused[0] != c.want || c.want == "" && !isNew(refused[0], c.header) {
			t.Errorf("%s: refused with %q, want %q", c.name, refused, c.want)
		}
	}
}

// isNew says whether an ID can only have been made here.
func isNew(id string, given []string) bool {
	return len(id) == 26 && isRequestID(id) && !strings.Contains(strings.Join(given, " "), id)
}

// The span of a request tells its route and its code, and nothing of its path or query; the caller
// learns the ID of its trace where a request has one. Machines that only look whether we live have no
// spans.
func TestRequestsHaveSpans(t *testing.T) {
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, c := range []struct {
		name, target, route string // route "": no span
		fail                func(context.Context) error
		status, code        int64
	}{
		{"ID", alice, "/get", nil, 200, 0},
		{"refused", "/get", "/get", nil, 400, -6},
		{"failed", alice, "/get", fakes.Broken(model.ErrQueueEmpty), 503, -4},
		{"fault", alice, "/get", panicking("boom"), 500, -11},
		{"live", "/livez", "", nil, 200, 0},
		{"metrics", "/metrics", "", nil, 200, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spans := tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
			api, _ := logging(c.fail, func(o *Options) { o.Tracer = provider.Tracer("") })
			got := askAs(api, http.MethodGet, c.target, "Traceparent", "00-"+parent+"-00f067aa0ba902b7-01")
			all := spans.GetSpans()
			if c.route == "" {
				check.Equal(t, len(all), 0, "spans")
				return
			}
			want := map[attribute.Key]any{"http.route": c.route, "url.path": c.route,
				"http.response.status_code": c.status, "shardid.code": c.code}
			for _, a := range all[0].Attributes {
				if value, known := want[a.Key]; known {
					check.Equal(t, a.Value.AsInterface(), value, a.Key)
					delete(want, a.Key)
				}
			}
			check.Equal(t, len(want), 0, "attributes that are missing")
			check.Equal(t, all[0].Name, "GET "+c.route, "name")
			check.Equal(t, all[0].SpanContext.TraceID().String(), parent, "the caller's trace")
			check.Equal(t, all[0].Status.Code == codes.Error, c.status >= 500, "an error")
			check.Lacks(t, fmt.Sprintf("%+v", all[0]), "alice", "the gatePass in a span")
			if id := got.Header().Get(requestIDHeader); c.code != 0 && id != all[0].SpanContext.TraceID().String() {
				t.Errorf("the request has the ID %q", id)
			}
		})
	}
}

// A line of a request has what is needed to find it, nothing of what it asked for, and the name of its token.
func TestRequestsAreLogged(t *testing.T) {
	api, log := logging(nil, func(o *Options) { closed(o); o.LogRequests = true })
	exchange{target: alice, token: "orders", header: []string{requestIDHeader, "r-1"}}.ask(api)
	for _, want := range []string{"level=INFO msg=request ", "method=GET", "path=/get ", "status=200", "code=0", "ms=",
		"bytes=", "request_id=r-1", "token=orders-token"} {
		check.Has(t, log.String(), want)
	}
	check.Lacks(t, log.String(), "alice")
	log.Reset()
	exchange{target: "/nope" + strings.Repeat("x", 3000), token: "orders"}.ask(api)
	check.Equal(t, log.Len() < 3*256+600, true, "short")
}
