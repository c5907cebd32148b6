package httpapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fakeLevel notes what it was asked to do.
type fakeLevel struct {
	state LogState
	asked string
}

func (l *fakeLevel) State() LogState { return l.state }

func (l *fakeLevel) Set(level slog.Level, d time.Duration, by, requestID string) LogState {
	l.asked = fmt.Sprint(level, " ", d, " ", by, " ", requestID)
	l.state = LogState{Level: "debug", Configured: "info", Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return l.state
}

func patchLevel(l LogLevel, token, body string) *httptest.ResponseRecorder {
	api := newAPIOf(func(o *Options) { o.LogLevel, o.Access = l, guardOf("root", "orders", "role: get, apps: '*'") })
	r := httptest.NewRequest(http.MethodPatch, "/admin/log", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(requestIDHeader, "a-1")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

func TestLogLevelIsChanged(t *testing.T) {
	for body, want := range map[string]string{
		`{"level":"debug","for":"90s"}`:    "DEBUG 1m30s admin a-1",
		`{"level":"warn"}`:                 "WARN 10m0s admin a-1",
		` {"for":"24h", "level":"error"} `: "ERROR 24h0m0s admin a-1",
		`{"level":"info","for":"1s"}`:      "INFO 1s admin a-1",
	} {
		l := &fakeLevel{}
		got := patchLevel(l, "root", body)
		if l.asked != want {
			t.Errorf("%s: asked %q, want %q", body, l.asked, want)
		}
		wantAnswer(t, got, http.StatusOK, `{"code":0,"level":"debug","configured":"info","until":"2026-01-02T03:04:05Z"}`)
	}
}

func TestLogLevelRefuses(t *testing.T) {
	for body, says := range map[string]string{
		``:                                  "JSON object with some of level, for",
		`debug`:                             "JSON object",
		`null`:                              "JSON object",
		`{}`:                                "level is missing",
		`{"level":"trace"}`:                 "level must be one of debug, info, warn, error",
		`{"level":"DEBUG"}`:                 "level must be one of",
		`{"level":"info+2"}`:                "level must be one of",
		`{"level":7}`:                       "level must be a string",
		`{"level":"debug","fro":"1h"}`:      "unknown field",
		`{"level":"debug"} x`:               "something follows",
		`{"level":"debug"}]`:                "something follows",
		`{"level":"debug"}{}`:               "something follows",
		`{"level":"debug","for":"10"}`:      "for must be a duration",
		`{"level":"debug","for":"-1h"}`:     "for must be a duration",
		`{"level":"debug","for":"25h"}`:     "1s…24h",
		`{"level":"debug","for":"1ms"}`:     "1s…24h",
		strings.Repeat(" ", maxBody) + `{}`: "the body has more than",
	} {
		l := &fakeLevel{}
		got := patchLevel(l, "root", body)
		var answer struct {
			Code    int
			Message string
		}
		if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil || got.Code != 400 || answer.Code != -6 || !strings.Contains(answer.Message, says) {
			t.Errorf("%.60s: %d %s, want %q", body, got.Code, got.Body, says)
		}
		if l.asked != "" {
			t.Errorf("%.60s: changed to %s", body, l.asked)
		}
	}
}

// levelExchanges are the answers of the log's level.
func levelExchanges() []exchange {
	const state = `{"code":0,"level":"debug","configured":"info","until":"2026-01-02T03:04:05Z"}`
	var all []exchange
	for method, send := range map[string]string{http.MethodGet: "", http.MethodPatch: `{"level":"debug","for":"10m"}`} {
		x := exchange{method: method, target: "/admin/log", send: send, change: func(o *Options) {
			administrated(&fakeAdmin{})(o)
			l := &fakeLevel{}
			l.Set(0, 0, "", "")
			o.LogLevel = l
		}}
		add := func(name, token string, status, code int) {
			x.name, x.token, x.status, x.code = method+" level: "+name, token, status, code
			all = append(all, x)
		}
		x.body = state
		add("done", adminSecret, 200, 0)
		x.body = ""
		add("no token", "", 401, -7)
		add("for IDs", "orders", 403, -7)
		x.change = spentAdmin
		add("spent", "slow", 429, -12)
	}
	set := administrated(&fakeAdmin{})
	return append(all,
		exchange{name: "level: no such one", method: http.MethodPatch, target: "/admin/log", send: `{"level":"trace"}`, token: adminSecret, change: set, status: 400, code: -6, says: "level must be"},
		exchange{name: "level: other method", method: http.MethodDelete, target: "/admin/log", token: adminSecret, change: set, status: 405, code: -10})
}

// The level is administration: who has no token for that neither sees nor sets it.
func TestLogLevelTakesAToken(t *testing.T) {
	for token, want := range map[string]int{"root": 200, "orders": 403, "": 401, "wrong": 401} {
		l := &fakeLevel{state: LogState{Level: "info", Configured: "info"}}
		api := newAPIOf(func(o *Options) { o.LogLevel, o.Access = l, guardOf("root", "orders", "role: get, apps: '*'") })
		got := exchange{target: "/admin/log", token: token}.ask(api)
		if got.Code != want || want == 200 && got.Body.String() != `{"code":0,"level":"info","configured":"info"}` {
			t.Errorf("%q: %d %s", token, got.Code, got.Body)
		}
		if got := patchLevel(l, token, `{"level":"debug"}`); got.Code != want || (l.asked != "") != (want == 200) {
			t.Errorf("%q: %d %s, asked %q", token, got.Code, got.Body, l.asked)
		}
	}
}
