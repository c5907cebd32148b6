package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// A panic is one answer with code -11 and one log line with the stack, and the next request is served.
func TestPanicIsAnsweredAndLogged(t *testing.T) {
	for _, p := range []any{"boom", errors.New("boom"), []int{1}, nil} {
		q := panicking(p)
		api, log := logging(q, nil)
		wantAnswer(t, ask(api, "GET", alice), 500,
			`{"code":-11,"message":"internal error: it has been logged, try again"}`)
		check.Equal(t, strings.Count(log.String(), "level=ERROR"), 1, "lines")
		check.Has(t, log.String(), "panicking.func1")
		check.Has(t, log.String(), "path=/get")
		q.next = nil
		wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	}
}

// http.ErrAbortHandler asks net/http to cut the connection: it is not ours.
func TestAbortPassesThrough(t *testing.T) {
	api, log := logging(panicking(http.ErrAbortHandler), nil)
	defer func() {
		if p := recover(); p != http.ErrAbortHandler || log.Len() > 0 { //nolint:errorlint // a panic value
			t.Errorf("recovered %v, logged %q", p, log.String())
		}
	}()
	ask(api, "GET", alice)
}

// brokenPipe panics when the answer is written, after its headers.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { panic("broken pipe") }

func TestPanicAfterTheHeadersWritesNoSecondAnswer(t *testing.T) {
	api, log := logging(&fakeQueue{}, nil)
	w := httptest.NewRecorder()
	api.ServeHTTP(brokenPipe{w}, httptest.NewRequest(http.MethodGet, alice, nil))
	wantAnswer(t, w, 200, "")
	check.Has(t, log.String(), "broken pipe")
}

// A buffer that served a large batch, or a request that failed, serves the next one with
// nothing left over, whatever its mode.
func TestBuffersHoldNothingOver(t *testing.T) {
	q := &fakeQueue{}
	opts, modes := testOptions(q, nil, io.Discard)
	metered(&opts)
	api := New(opts)
	ask(api, "GET", alice+"&count=10000")
	q.index = 0
	wantAnswer(t, ask(api, "GET", alice+"&count=2"), 200, `{"code":0,"ids":[16385,32769]}`)
	q.next = broken(model.ErrQueueEmpty).next
	ask(api, "GET", alice)
	q.next, q.index = nil, 0
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	q.index = 0
	ask(api, "GET", uidURL+"?count=10000")
	wantAnswer(t, ask(api, "GET", segmentURL), 200, "1")
	wantAnswer(t, ask(api, "GET", segmentURL+"?count=2"), 200, "2\n3\n")
	modes.segment.next = func(context.Context) error { panic("boom") }
	wantAnswer(t, ask(api, "GET", segmentURL), 500,
		`{"code":-11,"message":"internal error: it has been logged, try again"}`)
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	check.Equal(t, metricOf(t, api, `shardid_http_answers_total{code="0"}`), 7, "answers with IDs")
	check.Equal(t, metricOf(t, api, `shardid_http_answers_total{code="-11"}`), 1, "faults")
}

// waitForEnd is a queue that has nothing until the request ends.
func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Whether the client went or its deadline passed: an error, without a word in
// the log above debug, and nothing that could be an ID.
func TestRequestThatEnds(t *testing.T) {
	const want = `{"code":-4,"message":"the request was given up while it waited: nothing was issued, try again"}`
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	for name, ctx := range map[string]context.Context{"canceled": canceled, "expired": expired} {
		api, log := logging(&fakeQueue{next: waitForEnd}, nil)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, alice, nil))
		wantAnswer(t, w, http.StatusServiceUnavailable, want)
		if w.Header().Get("Retry-After") != "1" || strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: %v, log %s", name, w.Header(), log.String())
		}
	}
}

// Each mode counts its own requests, also those that a handler refuses before it asks the service. Who asks for a
// lease is known.
func TestTraffic(t *testing.T) {
	leases := &fakeLeases{}
	api := newAPIOf(func(o *Options) { metered(o); closed(o); o.Leases = leases })
	for _, x := range []exchange{
		{target: alice}, {target: alice + "&count=7"}, {target: "/get?appId=1"}, {target: segmentURL},
		{target: uidURL, token: "times"}, {target: "/decode?id=x"}, {target: "/get/more"},
		{method: http.MethodPost, target: "/v1/leases/%2e"}, {method: http.MethodPost, target: "/v1/leases/orders"},
	} {
		x.token = cmp.Or(x.token, "orders")
		x.ask(api)
	}
	check.Has(t, leases.asked, " orders-token ")
	for mode, want := range map[string][2]int{
		ModeQueue: {3, 1}, ModeSegment: {1, 0}, ModeSnowflake: {0, 0}, ModeUID: {1, 0}, ModeLease: {2, 1},
	} {
		got := [2]int{metricOf(t, api, `shardid_request_duration_seconds_count{mode="`+mode+`"}`),
			metricOf(t, api, `shardid_refused_total{mode="`+mode+`"}`)}
		check.Equal(t, got, want, mode)
	}
	check.Equal(t, metricOf(t, api, `shardid_refused_total{code="-6"}`), 2, "invalid argument")
}
