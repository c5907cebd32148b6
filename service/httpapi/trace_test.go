package httpapi

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"shardid/model"
)

// ctxKey marks a context that the tracer of a test made.
type ctxKey struct{}

// ended is what a Tracer was told of a request.
type ended struct {
	route        string
	status, code int
}

// observing is an API whose requests are noted.
func observing(q Queue, parent string, all *[]ended) *API {
	return newAPIOf(func(o *Options) {
		o.Queue = q
		o.Tracer = func(r *http.Request, route string) Trace {
			return Trace{
				Context: context.WithValue(r.Context(), ctxKey{}, true), ID: someTrace, Parent: parent,
				End: func(status, code int) { *all = append(*all, ended{route, status, code}) },
			}
		}
	})
}

// Each request is observed once, with what became of it; machines that only look
// whether we live are not.
func TestRequestsAreObserved(t *testing.T) {
	for _, c := range []struct {
		target string
		q      *fakeQueue
		want   []ended
	}{
		{alice, &fakeQueue{}, []ended{{"/get", 200, 0}}},
		{"/get", &fakeQueue{}, []ended{{"/get", 400, -6}}},
		{alice, broken(model.ErrQueueEmpty), []ended{{"/get", 503, -4}}},
		{alice, panicking("boom"), []ended{{"/get", 500, -11}}},
		{segmentURL, &fakeQueue{}, []ended{{"/api/segment/get/*key", 200, 0}}},
		{"/nothing", &fakeQueue{}, []ended{{"", 404, -10}}},
		{"/livez", &fakeQueue{}, nil},
		{"/readyz", &fakeQueue{}, nil},
		{"/readyz/uid", &fakeQueue{}, nil},
		{"/healthz", &fakeQueue{}, nil},
		{"/metrics", &fakeQueue{}, nil},
	} {
		var all []ended
		ask(observing(c.q, "", &all), http.MethodGet, c.target)
		if !slices.Equal(all, c.want) {
			t.Errorf("%s: %v, want %v", c.target, all, c.want)
		}
	}
}

// A request that is aborted has its end too.
func TestAbortedRequestEnds(t *testing.T) {
	var all []ended
	defer func() {
		if recover() != http.ErrAbortHandler || len(all) != 1 { //nolint:errorlint // a panic value
			t.Errorf("ended %v", all)
		}
	}()
	ask(observing(panicking(http.ErrAbortHandler), "", &all), http.MethodGet, alice)
}

// What is done for a request belongs to its trace, whose ID is that of a request
// without one, and the caller learns of a recorded one.
func TestTraceIsPassedOn(t *testing.T) {
	var all []ended
	inside := false
	q := &fakeQueue{next: func(ctx context.Context) error {
		inside, _ = ctx.Value(ctxKey{}).(bool)
		return nil
	}}
	if got := ask(observing(q, someParent, &all), http.MethodGet, alice); got.Header().Get("Traceparent") != someParent || !inside {
		t.Errorf("traceparent %q, inside %t", got.Header().Get("Traceparent"), inside)
	}
	got := ask(observing(q, "", &all), http.MethodGet, "/get")
	if _, ok := got.Header()["Traceparent"]; ok || got.Header().Get(requestIDHeader) != someTrace {
		t.Errorf("headers %v", got.Header())
	}
}
