package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardid/model"
)

// A panic is one answer with code -11 and one log line with the stack, and the
// next request is served.
func TestPanicIsAnsweredAndLogged(t *testing.T) {
	for _, p := range []any{"boom", errors.New("boom"), []int{1}, nil} {
		var log strings.Builder
		q := panicking(p)
		api := newAPIWith(q, nil, &log)
		wantAnswer(t, ask(api, "GET", alice), 500, `{"code":-11,"message":"internal error: it has been logged, try again"}`)
		if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, "panicking.func1") || !strings.Contains(got, "path=/get") {
			t.Errorf("panic(%v) logged %s", p, got)
		}
		q.next = nil
		wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	}
}

// http.ErrAbortHandler asks net/http to cut the connection: it is not ours.
func TestAbortPassesThrough(t *testing.T) {
	var log strings.Builder
	defer func() {
		if p := recover(); p != http.ErrAbortHandler || log.Len() > 0 { //nolint:errorlint // a panic value
			t.Errorf("recovered %v, logged %q", p, log.String())
		}
	}()
	ask(newAPIWith(panicking(http.ErrAbortHandler), nil, &log), "GET", alice)
}

// brokenPipe panics when the answer is written, after its headers.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { panic("broken pipe") }

func TestPanicAfterTheHeadersWritesNoSecondAnswer(t *testing.T) {
	var log strings.Builder
	w := httptest.NewRecorder()
	newAPIWith(&fakeQueue{}, nil, &log).ServeHTTP(brokenPipe{w}, httptest.NewRequest(http.MethodGet, alice, nil))
	wantAnswer(t, w, 200, "")
	if !strings.Contains(log.String(), "broken pipe") {
		t.Errorf("logged %q", log.String())
	}
}

// What a client may not see is in the log; what it did wrong itself is not an
// error there.
func TestLogLevels(t *testing.T) {
	for err, want := range map[error]string{
		errors.New("disk full"): `level=ERROR msg="request failed" path=/get error="disk full"`,
		model.ErrUnknownApp:     `level=DEBUG msg="request refused" path=/get code=-2 error="app is not provisioned"`,
	} {
		var log strings.Builder
		ask(newAPIWith(broken(err), nil, &log), "GET", alice)
		if !strings.Contains(log.String(), want) {
			t.Errorf("logged %q, want %q", log.String(), want)
		}
	}
}

// A buffer that served a large batch, or a request that failed, serves the next
// one with nothing left over.
func TestBuffersHoldNothingOver(t *testing.T) {
	q := &fakeQueue{}
	api := newAPI(q)
	ask(api, "GET", alice+"&count=10000")
	q.index = 0
	wantAnswer(t, ask(api, "GET", alice+"&count=2"), 200, `{"code":0,"ids":[16385,32769]}`)
	q.next = broken(model.ErrQueueEmpty).next
	ask(api, "GET", alice)
	q.next, q.index = nil, 0
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
}

// Buffers go from mode to mode.
func TestModesShareBuffers(t *testing.T) {
	opts, modes := testOptions(&fakeQueue{}, nil, io.Discard)
	api := New(opts)
	ask(api, "GET", uidURL+"?count=10000")
	wantAnswer(t, ask(api, "GET", segmentURL), 200, "1")
	wantAnswer(t, ask(api, "GET", segmentURL+"?count=2"), 200, "2\n3\n")
	modes.segment.next = func(context.Context) error { panic("boom") }
	wantAnswer(t, ask(api, "GET", segmentURL), 500, `{"code":-11,"message":"internal error: it has been logged, try again"}`)
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	if api.Answers()[0] != 4 || api.Answers()[-11] != 1 {
		t.Errorf("counted %v", api.Answers())
	}
}

// The tag arrives decoded, once; an encoded slash is part of it.
func TestTagIsDecoded(t *testing.T) {
	for raw, want := range map[string]string{
		"leaf-segment-test": "leaf-segment-test", "a.b:c_d": "a.b:c_d", "a%2Fb": "a/b", "%2f": "/", "a%2F%2Fb": "a//b", "a%2526": "a%26",
		"a+b": "a+b", "a%20b": "a b", "..": "..", "%2e": ".", "%E5%BC%A0%e4%b8%89": "张三", "a;b": "a;b", "%3F": "?", "*": "*", ":key": ":key",
	} {
		opts, modes := testOptions(&fakeQueue{}, nil, io.Discard)
		if got := ask(New(opts), "GET", "/api/segment/get/"+raw); got.Code != 200 || modes.segment.tag != want {
			t.Errorf("%s: %d %s, the service got %q, want %q", raw, got.Code, got.Body, modes.segment.tag, want)
		}
	}
}

// The gatePass arrives decoded, once.
func TestGatePassIsDecoded(t *testing.T) {
	for raw, want := range map[string]string{
		"a+b": "a b", "a%2Bb": "a+b", "a%2526": "a%26", "a=b": "a=b", "a;b": "a;b", "%F0%9F%98%80": "😀", "%00": "\x00",
	} {
		q := &fakeQueue{}
		if got := ask(newAPI(q), "GET", "/get?appId=1&gatePass="+raw); got.Code != 200 || q.gatePass != want {
			t.Errorf("gatePass=%s: %d, the queue got %q, want %q", raw, got.Code, q.gatePass, want)
		}
	}
}

// Readiness is that of any mode, and of one mode by its name; /healthz is of everything.
func TestReadiness(t *testing.T) {
	const away = "read 10.0.0.1:1->10.0.0.2:2: connection reset"
	database := fakeConditions{"database"}
	lost := fmt.Errorf("%w: the registry is away", model.ErrNoLease)
	for _, c := range []struct {
		name                         string
		failing                      fakeConditions
		queue, snowflake, uid        error
		drain, young                 bool
		readyz, readyzOfUID, healthz string // status, then what the body begins with
	}{
		{
			name:   "all well",
			readyz: `200 {"status":"ok","checks":`, readyzOfUID: `200 {"status":"ok",`, healthz: `200 {"status":"ok",`,
		},
		{
			name: "a store is away, and every mode serves", failing: database,
			readyz: `200 {"status":"degraded","message":"database: ` + away + `",`, readyzOfUID: `200 {"status":"degraded",`,
			healthz: `503 {"status":"degraded","message":"database: ` + away + `",`,
		},
		{
			name: "the queue cannot serve", queue: wrap(model.ErrNotReady),
			readyz: `200 {"status":"degraded","message":"queue: next: not initialised yet",`, readyzOfUID: `200 {"status":"degraded",`,
			healthz: `503 {"status":"degraded","message":"queue: next: not initialised yet",`,
		},
		{
			name: "one mode serves alone", failing: database, queue: wrap(model.ErrNotReady), snowflake: lost,
			readyz: `200 {"status":"degraded","message":"database: `, readyzOfUID: `200 {"status":"degraded",`,
			healthz: `503 {"status":"degraded","message":"database: `,
		},
		{
			name: "none serves", failing: database, queue: wrap(model.ErrNotReady), snowflake: lost, uid: lost,
			readyz:      `503 {"status":"not ready","message":"no mode can serve: queue: next: not initialised yet",`,
			readyzOfUID: `503 {"status":"not ready","message":"no worker ID is held: the registry is away",`,
			healthz:     `503 {"status":"degraded","message":"database: `,
		},
		{
			name: "one mode cannot serve yet", snowflake: lost, young: true,
			readyz:      `503 {"status":"not ready","message":"starting: snowflake: no worker ID is held: the registry is away",`,
			readyzOfUID: `200 {"status":"degraded",`, healthz: `503 {"status":"degraded","message":"snowflake: `,
		},
		{
			name: "draining", drain: true,
			readyz: `503 {"status":"not ready","message":"shutting down",`, readyzOfUID: `503 {"status":"not ready","message":"shutting down",`,
			healthz: `200 {"status":"ok",`,
		},
		{
			name: "draining, and all else fails", failing: database, queue: lost, snowflake: lost, uid: lost, drain: true,
			readyz: `503 {"status":"not ready","message":"shutting down",`, readyzOfUID: `503 {"status":"not ready","message":"shutting down",`,
			healthz: `503 `,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, _ := testOptions(&fakeQueue{ready: c.queue}, c.failing, io.Discard)
			opts.Segment = nil
			opts.Modes = []Mode{opts.Modes[0], {ModeSnowflake, func() error { return c.snowflake }}, {ModeUID, func() error { return c.uid }}}
			api := New(opts)
			if c.drain {
				api.Drain()
			}
			if !c.young {
				api.startedAt = api.startedAt.Add(-startPatience)
			}
			wantHealth(t, api, "/readyz", c.readyz)
			wantHealth(t, api, "/readyz/uid", c.readyzOfUID)
			wantHealth(t, api, "/healthz", c.healthz)
			wantAnswer(t, ask(api, "GET", "/livez"), 200, "{\"status\":\"ok\"}\n")
			wantHealth(t, api, "/readyz/segment", `404 {"code":-9,`)
			wantHealth(t, api, "/readyz/nothing", `404 {"code":-10,`)
		})
	}
}

// A replica that has just started waits for all of its modes once, and not for long.
func TestReadinessAtTheStart(t *testing.T) {
	uid := model.ErrNoLease
	api := newAPIOf(func(o *Options) { o.Modes[3].Ready = func() error { return uid } })
	now := api.startedAt
	api.now = func() time.Time { return now }
	wantHealth(t, api, "/readyz", `503 {"status":"not ready","message":"starting: uid: no worker ID is held",`)
	now = now.Add(startPatience)
	wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
	now = now.Add(-startPatience)
	uid = nil
	wantHealth(t, api, "/readyz", `200 {"status":"ok",`)
	uid = model.ErrNoLease
	wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
}

// A check says since when its mode is as it is.
func TestReadinessSince(t *testing.T) {
	var snowflake error
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	api := newAPIOf(func(o *Options) { o.Modes[2].Ready = func() error { return snowflake } })
	api.now = func() time.Time { return now }
	for _, step := range []struct {
		ready error
		want  string
	}{
		{nil, `{"name":"snowflake","ok":true,"since":"2026-01-01T00:00:00Z"},{"name":"uid","ok":true,`},
		{model.ErrNoLease, `{"name":"snowflake","ok":false,"since":"2026-01-01T01:00:00Z","error":"no worker ID is held"}`},
		{model.ErrClockBack, `{"name":"snowflake","ok":false,"since":"2026-01-01T01:00:00Z","error":"the clock went back"}`},
		{nil, `{"name":"snowflake","ok":true,"since":"2026-01-01T03:00:00Z"}`},
	} {
		snowflake = step.ready
		if got := ask(api, "GET", "/readyz").Body.String(); !strings.Contains(got, step.want) {
			t.Errorf("checks %s\nwant %s", got, step.want)
		}
		now = now.Add(time.Hour)
	}
}

func wantHealth(t *testing.T, api *API, path, want string) {
	t.Helper()
	got := ask(api, "GET", path)
	if line := fmt.Sprint(got.Code, " ", got.Body); !strings.HasPrefix(line, want) {
		t.Errorf("%s: %s, want %s", path, line, want)
	}
	if got.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s may be cached", path)
	}
}

// Requests are served while the process drains.
func TestDrainStillServes(t *testing.T) {
	api := newAPI(&fakeQueue{})
	api.Drain()
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
}

func TestAdministrationIsClosed(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		w := ask(newAPI(&fakeQueue{}), method, "/admin/apps")
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"code":-7`) {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
}

func TestAnswersAreCountedByCode(t *testing.T) {
	a := newAPI(&fakeQueue{})
	for _, target := range []string{alice, alice, "/get?appId=1", "/nowhere"} {
		ask(a, http.MethodGet, target)
	}
	counts := a.Answers()
	for code, want := range map[int]int64{0: 2, -6: 1, -10: 1, -4: 0} {
		if counts[code] != want {
			t.Errorf("code %d was counted %d times, want %d", code, counts[code], want)
		}
	}
}
