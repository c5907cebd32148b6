package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
