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
	ask(api, "GET", uid+"?count=10000")
	wantAnswer(t, ask(api, "GET", segment), 200, "1")
	wantAnswer(t, ask(api, "GET", segment+"?count=2"), 200, "2\n3\n")
	modes.segment.next = func(context.Context) error { panic("boom") }
	wantAnswer(t, ask(api, "GET", segment), 500, `{"code":-11,"message":"internal error: it has been logged, try again"}`)
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

func TestReadiness(t *testing.T) {
	starting := &fakeQueue{ready: wrap(model.ErrNotReady)}
	database, redis := fakeConditions{ConditionDatabase}, fakeConditions{ConditionRedis}
	for _, c := range []struct {
		name    string
		queue   *fakeQueue
		failing fakeConditions
		drain   bool
		readyz  string // status, then what the body begins with
		healthz string
	}{
		{"all well", &fakeQueue{}, nil, false, `200 {"status":"ok",`, `200 {"status":"ok",`},
		{"starved, but the database is back", &fakeQueue{starved: true}, nil, false, `200 {"status":"ok",`, `200 {"status":"ok",`},
		{
			"database away", &fakeQueue{}, database, false, `200 {"status":"degraded","checks":`,
			`503 {"status":"degraded","message":"database: read 10.0.0.1:1->10.0.0.2:2: connection reset",`,
		},
		{
			"database away and starved", &fakeQueue{starved: true}, database, false,
			`503 {"status":"not ready","message":"the database cannot be used and the lists have run dry",`, `503 {"status":"degraded",`,
		},
		{"redis away", &fakeQueue{}, redis, false, `503 {"status":"not ready","message":"redis cannot be used",`, `503 {"status":"degraded","message":"redis: `},
		{"not initialised", starting, nil, false, `503 {"status":"not ready","message":"next: not initialised yet",`, `503 {"status":"degraded","message":"next: not initialised yet",`},
		{"draining", &fakeQueue{}, nil, true, `503 {"status":"not ready","message":"shutting down",`, `200 {"status":"ok",`},
		{"draining, and all else fails", starting, append(database, redis...), true, `503 {"status":"not ready","message":"shutting down",`, `503 `},
	} {
		t.Run(c.name, func(t *testing.T) {
			api := newAPIWith(c.queue, c.failing, io.Discard)
			if c.drain {
				api.Drain()
			}
			wantHealth(t, api, "/readyz", c.readyz)
			wantHealth(t, api, "/healthz", c.healthz)
			wantAnswer(t, ask(api, "GET", "/livez"), 200, "{\"status\":\"ok\"}\n")
		})
	}
}

// The other modes: one that was never ready keeps the replica out of service, one
// that was and is not leaves it degraded, and monitoring is told of both.
func TestReadinessOfModes(t *testing.T) {
	lost := fmt.Errorf("%w: the registry is away", model.ErrNoLease)
	now := time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC)
	var snowflake, uid error
	api := newAPIOf(func(o *Options) {
		o.Modes = []Mode{{ModeSegment, well}, {ModeSnowflake, func() error { return snowflake }}, {ModeUID, func() error { return uid }}}
	})
	api.now = func() time.Time { return now }
	for _, step := range []struct {
		name                       string
		snowflake, uid             error
		readyz, healthz, snowCheck string
	}{
		{
			"never ready", wrap(model.ErrNotReady), nil,
			`503 {"status":"not ready","message":"snowflake: next: not initialised yet",`, `503 {"status":"degraded","message":"snowflake: next: not initialised yet",`,
			`{"name":"snowflake","ok":false,"since":"2026-01-01T00:00:00Z","error":"next: not initialised yet"},{"name":"uid","ok":true,`,
		},
		{
			"never ready, for another reason", lost, nil,
			`503 {"status":"not ready","message":"snowflake: no worker ID is held: the registry is away",`, `503 {"status":"degraded","message":"snowflake: `,
			`{"name":"snowflake","ok":false,"since":"2026-01-01T00:00:00Z","error":"no worker ID is held: the registry is away"}`,
		},
		{
			"ready", nil, nil, `200 {"status":"ok","checks":`, `200 {"status":"ok","checks":`,
			`{"name":"segment","ok":true,"since":"2026-01-01T00:00:00Z"},{"name":"snowflake","ok":true,"since":"2026-01-01T02:00:00Z"},{"name":"uid",`,
		},
		{
			"not any more", lost, nil, `200 {"status":"degraded","message":"snowflake: no worker ID is held: the registry is away","checks":`, `503 {"status":"degraded","message":"snowflake: `,
			`{"name":"snowflake","ok":false,"since":"2026-01-01T03:00:00Z","error":"no worker ID is held: the registry is away"}`,
		},
		{
			"nor another", lost, lost, `200 {"status":"degraded","message":"snowflake: no worker`, `503 {"status":"degraded","message":"snowflake: `,
			`{"name":"snowflake","ok":false,"since":"2026-01-01T03:00:00Z","error"`,
		},
		{
			"again", nil, nil, `200 {"status":"ok","checks":`, `200 {"status":"ok","checks":`,
			`{"name":"snowflake","ok":true,"since":"2026-01-01T05:00:00Z"}`,
		},
	} {
		t.Run(step.name, func(t *testing.T) {
			now = now.Add(time.Hour)
			snowflake, uid = step.snowflake, step.uid
			wantHealth(t, api, "/readyz", step.readyz)
			wantHealth(t, api, "/healthz", step.healthz)
			if got := ask(api, "GET", "/readyz").Body.String(); !strings.Contains(got, step.snowCheck) {
				t.Errorf("checks %s\nwant %s", got, step.snowCheck)
			}
		})
	}
}

// The queue and the stores come before the modes, and a store's failure before
// what waits for it.
func TestReadinessNamesTheCause(t *testing.T) {
	opts, _ := testOptions(&fakeQueue{}, fakeConditions{ConditionDatabase, ConditionRedis}, io.Discard)
	opts.Modes[0].Ready = func() error { return model.ErrNotReady }
	api := New(opts)
	wantHealth(t, api, "/readyz", `503 {"status":"not ready","message":"redis cannot be used",`)
	wantHealth(t, api, "/healthz", `503 {"status":"degraded","message":"database: read `)
	opts.Conditions, opts.Queue = fakeConditions{}, &fakeQueue{ready: wrap(model.ErrNotReady)}
	wantHealth(t, New(opts), "/readyz", `503 {"status":"not ready","message":"next: not initialised yet",`)
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
