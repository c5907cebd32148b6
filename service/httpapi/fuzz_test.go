package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"shardid/model"

	"github.com/gin-gonic/gin"
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
		values, unreadable := url.ParseQuery(query)
		switch p, err := parse(&ofLeaf, query); { // the parameters of /get mean nothing here
		case err != nil && !errors.Is(err, model.ErrInvalidArgument):
			t.Fatalf("%q: %v", query, err)
		case err == nil && (p.App != 0 || p.GatePass != "" || p.Count < 1 || p.Count > model.MaxBatch || !p.batch && p.Count != 1):
			t.Fatalf("%q accepted as %+v", query, p)
		case err == nil && unreadable == nil:
			sameAs(t, p, url.Values{"count": values["count"], "stringify": values["stringify"]})
		}
		p, err := parse(&ofGet, query)
		if err != nil {
			if !errors.Is(err, model.ErrInvalidArgument) {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		inRange := p.App >= 0 && p.App < model.Apps && p.Count >= 1 && p.Count <= model.MaxBatch && (p.batch || p.Count == 1)
		if !inRange || p.GatePass == "" || len(p.GatePass) > model.MaxGatePassBytes || !utf8.ValidString(p.GatePass) {
			t.Fatalf("%q accepted as %+v", query, p)
		}
		if unreadable == nil {
			sameAs(t, p, values)
		}
	})
}

// parse reads a raw query without a request.
func parse(p *protocol, query string) (asked, error) {
	given, err := readQuery(query, p.known...)
	if err != nil {
		return asked{}, err
	}
	return p.read(&gin.Context{Request: accepted()}, of(0), given)
}

func sameAs(t *testing.T, p asked, values url.Values) {
	t.Helper()
	want := of(0)
	want.GatePass, want.batch, want.form = values.Get("gatePass"), len(values["count"]) > 0, p.form
	want.App, _ = strconv.Atoi(values.Get("appId"))
	if want.batch {
		want.Count, _ = strconv.Atoi(values.Get("count"))
	}
	want.stringify, _ = strconv.ParseBool(values.Get("stringify"))
	if format := values.Get("format"); p != want || len(values["appId"]) > 0 && (format == "text") != (p.form == asLines) {
		t.Fatalf("read %+v, url.ParseQuery %+v", p, want)
	}
	for _, name := range []string{"appId", "gatePass", "count", "stringify", "format"} {
		if len(values[name]) > 1 {
			t.Fatalf("%s is there %d times: %v", name, len(values[name]), values)
		}
	}
}

// A JSON body is answered with the count that encoding/json reads, or it is refused.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"count":3}`, `{"count":"3"}`, `{"count":3,"count":4}`, `{"Count":3}`, `{"c\u006funt":3}`, `{"count":1e1}`, `{"count":null}`,
		`{"count":-0}`, `{"ranges":true}`, `{"format":"hex","padded":true}`, `{"count":3}x`, ` {"count":03}`, "\ufeff{}", `{"count":"3&count=4"}`, `{}`, ``,
	} {
		f.Add(body)
	}
	api := newAPI(&fakeQueue{})
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/snowflake/ids", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code == 400 {
			return
		}
		var answer struct {
			IDs    []string
			Ranges []struct{ Count int }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%q: %d %s, %v", body, w.Code, w.Body, err)
		}
		got, want := len(answer.IDs), 1
		for _, r := range answer.Ranges {
			got += r.Count
		}
		var asked map[string]any
		if err := json.Unmarshal([]byte(body), &asked); err != nil && body != "" {
			t.Fatalf("%q is no JSON and was served: %v", body, err)
		}
		if count, given := asked["count"]; given {
			want, _ = strconv.Atoi(fmt.Sprint(count))
		}
		if got != want {
			t.Fatalf("%q: %d IDs", body, got)
		}
	})
}

// Whatever follows /api/segment/get/ is one segment that is the tag, or nothing is
// issued.
func FuzzTag(f *testing.F) {
	for _, x := range exchanges() {
		if rest, ok := strings.CutPrefix(x.target, "/api/segment/get/"); ok && len(rest) < 200 {
			f.Add(rest)
		}
	}
	for _, rest := range []string{"a%2Fb", "a%2fb/c", "%2F/", "/", "//", "a/../b", "%252F", "a%00", "*key", "%c3%28",
		"a.b:c_d", "a%2F%2Fb", "a%2526", "a+b", "a%20b", "..", "%2e", "%E5%BC%A0%e4%b8%89", "a;b", "%3F", "*", ":key"} {
		f.Add(rest)
	}
	opts, modes := testOptions(&fakeQueue{}, nil, io.Discard)
	opts.MaxURLBytes = 1 << 20
	api := New(opts)
	f.Fuzz(func(t *testing.T, rest string) {
		u, err := url.ParseRequestURI("/api/segment/get/" + rest)
		if err != nil || strings.ContainsAny(rest, "?#") {
			return // net/http answers it, or it is not about the tag
		}
		before := modes.segment.calls
		w := httptest.NewRecorder()
		api.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
		if len(rest) > 1 {
			rest = strings.TrimSuffix(rest, "/") // as Spring has it
		}
		tag, _ := url.PathUnescape(rest)
		switch issued := modes.segment.calls > before; {
		case strings.Contains(rest, "/"):
			if w.Code != 404 || issued {
				t.Fatalf("%q, more than a segment: %d %s", rest, w.Code, w.Body)
			}
		case model.CheckTag(tag) != nil:
			if w.Code != 400 || issued {
				t.Fatalf("%q, no tag: %d %s", rest, w.Code, w.Body)
			}
		case w.Code != 200 || !issued || modes.segment.tag != tag:
			t.Fatalf("%q: %d %s, the service got %q", rest, w.Code, w.Body, modes.segment.tag)
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
	for _, query := range []string{"id=-9223372036854775808", "id=0x4001", "id=16385&id=2", "kind=uid&id=1", "id=16385;kind=uid", "id=%31", "id=4GH&format=base62",
		"id=7ZZZZZZZZZZZZ", "format=hex&id=4001", "id=1&format=", "id=abc"} {
		f.Add(query)
	}
	api := newAPI(&fakeQueue{})
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
		id, format := r.URL.Query().Get("id"), r.URL.Query().Get("format")
		want, err := strconv.ParseInt(id, 10, 64)
		if format != "" || err != nil {
			want, _ = model.ParseID(id, format)
		}
		switch {
		case w.Code == 200 && got.Code == 0 && got.ID != nil && *got.ID == want && got.IDStr == strconv.FormatInt(want, 10):
		case w.Code == 400 && got.Code == -6 && got.ID == nil:
		default:
			t.Fatalf("%q: %d %s", query, w.Code, w.Body)
		}
	})
}
