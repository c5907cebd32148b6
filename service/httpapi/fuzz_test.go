package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"shardid/model"
	"shardid/service/queue"
)

// What is accepted is in range, and url.ParseQuery reads the same from it: a
// proxy that looks at appId sees the app that an ID is issued for.
func FuzzParseGet(f *testing.F) {
	for _, x := range exchanges() {
		_, query, _ := strings.Cut(x.target, "?")
		f.Add(query)
	}
	for _, query := range []string{
		"appId=1&gatePass=a;b", "appId=1;gatePass=a&gatePass=b", "app+Id=1&gatePass=a", "%61ppId=1&appId=2&gatePass=a",
		"appId=007&gatePass=a&count=010000", "appId=1&gatePass=%F0%9F%98%80", "appId=1&gatePass=a&count=1_0", "appId=%31&gatePass=+",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		p, err := parseGet(query)
		if err != nil {
			if !errors.Is(err, model.ErrInvalidArgument) {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		inRange := p.app >= 0 && p.app < model.Apps && p.count >= 1 && p.count <= queue.MaxBatch && (p.batch || p.count == 1)
		if !inRange || p.gatePass == "" || len(p.gatePass) > model.MaxGatePassBytes || !utf8.ValidString(p.gatePass) {
			t.Fatalf("%q accepted as %+v", query, p)
		}
		if values, err := url.ParseQuery(query); err == nil {
			sameAs(t, p, values)
		}
	})
}

func sameAs(t *testing.T, p getParams, values url.Values) {
	t.Helper()
	want := getParams{count: 1, gatePass: values.Get("gatePass"), batch: values.Has("count")}
	want.app, _ = strconv.Atoi(values.Get("appId"))
	if want.batch {
		want.count, _ = strconv.Atoi(values.Get("count"))
	}
	want.stringify, _ = strconv.ParseBool(values.Get("stringify"))
	if p != want {
		t.Fatalf("read %+v, url.ParseQuery %+v", p, want)
	}
	for _, name := range []string{"appId", "gatePass", "count", "stringify"} {
		if len(values[name]) > 1 {
			t.Fatalf("%s is there %d times: %v", name, len(values[name]), values)
		}
	}
}

// Text is answered only to who names it, and with a range that matches it.
func FuzzWantsText(f *testing.F) {
	for _, accept := range []string{
		"text/plain", "application/json, text/plain, */*", "text/html,*/*;q=0.8", "text/*;q=NaN", "TEXT/PLAIN;q=0.5,application/*;q=0.4",
		"text/plain;q=0, text/*", ",;q=1,text/plain;;q=0.1;q=1", "text/plain;q=1e-400, application/json;q=0",
	} {
		f.Add(accept)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		ask := func(accept string) bool {
			return wantsText(&http.Request{Header: http.Header{"Accept": {accept}}})
		}
		got, lower := ask(accept), strings.ToLower(accept)
		if got && !strings.Contains(lower, "text/plain") && !strings.Contains(lower, "text/*") {
			t.Fatalf("%q is answered with text", accept)
		}
		if got != ask(lower) || got != ask(accept+",image/png") {
			t.Fatalf("%q depends on case or on another type", accept)
		}
		if !ask("text/plain,"+accept) && !strings.Contains(lower, "application/") && !strings.Contains(lower, "*/*") && !strings.Contains(lower, "text/plain") {
			t.Fatalf("%q keeps text/plain away", accept)
		}
	})
}

// Every answer is JSON: the parts of the ID that was asked for, or code -6.
func FuzzDecodeHandler(f *testing.F) {
	for _, x := range exchanges() {
		if _, query, ok := strings.Cut(x.target, "/decode?"); ok && len(query) < 100 {
			f.Add(query)
		}
	}
	for _, query := range []string{"id=-9223372036854775808", "id=0x4001", "id=16385&id=2", "kind=uid&id=1", "id=16385;kind=uid", "id=%31"} {
		f.Add(query)
	}
	api := newAPIWith(&fakeQueue{}, nil, io.Discard)
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/decode", nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		var got struct {
			Code  int
			ID    *int64
			IDStr string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !utf8.Valid(w.Body.Bytes()) {
			t.Fatalf("%q: %v: %s", query, err, w.Body)
		}
		want, _ := strconv.ParseInt(r.URL.Query().Get("id"), 10, 64)
		switch {
		case w.Code == 200 && got.Code == 0 && got.ID != nil && *got.ID == want && got.IDStr == strconv.FormatInt(want, 10):
		case w.Code == 400 && got.Code == -6 && got.ID == nil:
		default:
			t.Fatalf("%q: %d %s", query, w.Code, w.Body)
		}
	})
}
