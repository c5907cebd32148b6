package httpapi

import (
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

// A panic is one answer with code -11 and one log line with the stack, and the
// next request is served.
func TestPanicIsAnsweredAndLogged(t *testing.T) {
	for _, p := range []any{"boom", errors.New("boom"), []int{1}, nil} {
		q := panicking(p)
		api, log := logging(q, nil)
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

// What a client may not see is in the log; what it did wrong itself is not an
// error there.
func TestLogLevels(t *testing.T) {
	for err, want := range map[error]string{
		errors.New("disk full"): `level=ERROR msg="request failed" path=/get error="disk full"`,
		model.ErrUnknownApp:     `level=DEBUG msg="request refused" path=/get code=-2 error="app is not provisioned"`,
	} {
		api, log := logging(broken(err), nil)
		ask(api, "GET", alice)
		check.Has(t, log.String(), want)
	}
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
	wantAnswer(t, ask(api, "GET", segmentURL), 500, `{"code":-11,"message":"internal error: it has been logged, try again"}`)
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	check.Equal(t, metricOf(t, api, `shardid_http_answers_total{code="0"}`), 7, "answers with IDs")
	check.Equal(t, metricOf(t, api, `shardid_http_answers_total{code="-11"}`), 1, "faults")
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

// Every verb but GET, HEAD and POST is answered 405, and OPTIONS 204, whatever the parameters, and no
// mode ever hears of it.
func TestOtherVerbsIssueNothing(t *testing.T) {
	q := &fakeQueue{}
	opts, modes := testOptions(q, nil, io.Discard)
	server := httptest.NewServer(New(opts))
	defer server.Close()
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "BREW"} {
		for _, target := range []string{"/get", alice, alice + "&count=3", "/api/segment/get/", segmentURL, segmentURL + "?count=3", snowflakeURL, uidURL, uidURL + "?count=3", "/v1/queue/1/ids?gatePass=a", "/v1/segment/a/ids", "/v1/uid/ids"} {
			got := fetch(t, method, server.URL+target, "")
			status, body := http.StatusMethodNotAllowed, `{"code":-10,"message":`
			if method == http.MethodOptions {
				status, body = http.StatusNoContent, ""
			}
			check.Equal(t, got.Header.Get("Allow"), "GET, HEAD, POST, OPTIONS", method, target)
			if got.StatusCode != status || !strings.HasPrefix(got.body, body) || body == "" && got.body != "" {
				t.Errorf("%s %s: %d %v %q", method, target, got.StatusCode, got.Header, got.body)
			}
		}
	}
	if q.calls != 0 || modes.calls() != 0 {
		t.Errorf("the queue was called %d times, the modes %d times", q.calls, modes.calls())
	}
}

// Whatever carries count, the answer has exactly so many IDs, or is an error.
func TestWhateverCarriesTheCount(t *testing.T) {
	const form, json, ids = "application/x-www-form-urlencoded", "application/json", "/v1/snowflake/ids"
	const three = `["1169786042799259000","1169786042799259001","1169786042799259002"]`
	multipart := "--x\r\nContent-Disposition: form-data; name=\"count\"\r\n\r\n100\r\n--x--\r\n"
	for _, test := range []struct {
		target, body, kind string
		status             int
		says               string
	}{
		{ids, `{"count":3}`, json, 200, three},
		{ids, `{"count":"3"}`, "Application/JSON; charset=utf-8", 200, three},
		{ids + "?count=3", `{}`, json, 200, three},
		{ids + "?count=3", ``, json, 200, three},
		{ids, `{"count":2,"ranges":true}`, json, 200, `"count":2`},
		{ids, `{"count":1,"padded":"true"}`, json, 200, `["1169786042799259000"]`},
		{"/v1/queue/1/ids", `{"gatePass":"alice","count":2}`, json, 200, `["16385","32769"]`},
		{"/v1/queue/1/ids?count=2", `{"gatePass":13800138000}`, json, 200, `"ids":[`},
		{"/get", `{"appId":1,"gatePass":"alice","count":2,"stringify":true}`, json, 200, `["16385","32769"]`},
		{uidURL, `{"count":2}`, json, 200, "3200169789968523265\n3200169789968523266\n"},
		{segmentURL, `{"count":2}`, json, 200, "1\n2\n"},
		{"/tinyid/id/nextIdSimple", `{"bizType":"orders","batchSize":2}`, json, 200, "1,2"},

		{ids, `{"count":0}`, json, 400, "count must be a whole number in 1…10000"},
		{ids, `{"count":1e2}`, json, 400, "count must be a string or a whole number, not 1e2"},
		{ids, `{"count":3.0}`, json, 400, "not 3.0"},
		{ids, `{"count":true}`, json, 400, "not true"},
		{ids, `{"count":null}`, json, 400, "not null"},
		{ids, `{"count":[3]}`, json, 400, "must not be a list or an object"},
		{ids, `{"count":3,"count":3}`, json, 400, "count is given twice"},
		{ids, `{"count":3,"c\u006funt":3}`, json, 400, "count is given twice"},
		{ids, `{"Count":3}`, json, 400, `unknown field \"Count\"`},
		{ids, `{"ranges":1}`, json, 400, "ranges must be true or false, not 1"},
		{ids, `{"gatePass":"alice"}`, json, 400, "unknown field"},
		{ids, `[3]`, json, 400, "must be a JSON object"},
		{ids, `{"count":3`, json, 400, "not JSON"},
		{ids, `{"count":3}{"count":4}`, json, 400, "something follows"},
		{ids, "{\"count\":\"\xff\"}", json, 400, "not UTF-8"},
		{ids, strings.Repeat(" ", maxBody+1), json, 400, "the body has more than 65536 bytes"},
		{ids + "?count=4", `{"count":3}`, json, 400, "count is given twice"},
		{ids + "?count=3", `count=3`, form, 400, "count is given twice"},
		{uidURL + "?count=4", `{"count":3}`, json, 400, "count is given twice"},
		{uidURL, `{"cnt":3}`, json, 400, `unknown field \"cnt\": there are count, stringify`},
		{"/v1/queue/1/ids", `{"gatePass":true}`, json, 400, "gatePass must be a string or a whole number, not true"},
		{"/v1/queue/1/ids", `{"gatePass":"alice","appId":2}`, json, 400, "unknown field"},

		{"/get", "appId=1&gatePass=alice", form, 200, `{"code":0,"id":16385,"idStr":"16385"}`},
		{"/get?appId=1", "gatePass=alice&count=1", "Application/X-WWW-Form-URLencoded; charset=utf-8", 200, `{"code":0,"ids":[16385]}`},
		{"/v1/queue/1/ids", "gatePass=alice", form, 200, `{"code":0,"ids":["16385"]}`},
		{"/tinyid/id/nextIdSimple", "bizType=orders&batchSize=2", form, 200, "1,2"},
		{alice, "appId=2", form, 400, "appId is given twice"},
		{alice, "", "text/plain", 200, `{"code":0,"id":16385,"idStr":"16385"}`},
		{"/get", strings.Repeat("a", maxBody+1), form, 400, "the body has more than 65536 bytes"},

		{ids, multipart, "multipart/form-data; boundary=x", 415, "this body cannot be read"},
		{ids, `{"count":3}`, "text/plain;charset=UTF-8", 415, "send application/json"}, // fetch with a string
		{ids, `{"count":3}`, "", 415, "send application/json"},
		{uidURL, `{"count":3}`, "text/plain", 415, "send application/json"},
		{alice, multipart, "multipart/form-data; boundary=x", 415, "send application/json"},
		{segmentURL + "?count=3", "<count>3</count>", "application/xml", 415, "send application/json"},

		{ids + "?Count=100", ``, "", 400, `unknown parameter \"Count\": there are count, ranges, format, padded`},
		{ids + "?cnt=5", ``, "", 400, `unknown parameter \"cnt\"`},
		{ids + "?count=5&rangs=true", ``, "", 400, `unknown parameter \"rangs\"`},
		{ids + "?gatePass=alice", ``, "", 400, `unknown parameter \"gatePass\"`},
		{ids + "?%zz=1", ``, "", 400, "unknown parameter"},
		{ids, `Count=100`, form, 400, `unknown parameter \"Count\"`},
		{"/v1/queue/1/ids?gatepass=alice", ``, "", 400, `unknown parameter \"gatepass\"`},
		{"/v1/uid/ids?&count=2&", ``, "", 200, `["3200169789968523265","3200169789968523266"]`},
		{uidURL + "?Count=100&cnt=5", ``, "", 200, "3200169789968523265"}, // as the original
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			for _, length := range []int64{int64(len(test.body)), -1} { // -1 is a body in chunks
				r := httptest.NewRequest(method, test.target, strings.NewReader(test.body))
				r.ContentLength = length
				r.Header.Set("Content-Type", test.kind)
				got := httptest.NewRecorder()
				newAPI(&fakeQueue{}).ServeHTTP(got, r)
				if got.Code != test.status || !strings.Contains(got.Body.String(), test.says) || got.Code != 200 && !strings.Contains(got.Body.String(), `"code":-6`) {
					t.Errorf("%s %s with %.60q, %d bytes, %s: %d %s", method, test.target, test.body, length, test.kind, got.Code, got.Body)
				}
			}
		}
	}
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

// The IDs of a tag with a pattern are texts, which only /v1 answers.
func TestTextsOfATag(t *testing.T) {
	api := newAPIOf(func(o *Options) {
		o.Segment = &fakeSegment{pattern: true, fakeGenerator: fakeGenerator{first: 1}}
	})
	const refused = `{"code":-6,"message":"invalid argument: the tag has a pattern"}`
	for _, x := range [][2]string{
		{"/v1/segment/a/ids", `{"code":0,"ids":["no \"1\""]}`},
		{"/v1/segment/a/ids?count=2", `{"code":0,"ids":["no \"2\"","no \"3\""]}`},
		{"/v1/segment/a/ids?ranges=true", refused},
		{"/api/segment/get/a", refused},
	} {
		check.Equal(t, ask(api, http.MethodGet, x[0]).Body.String(), x[1], x[0])
	}
}

// Leaf's paths as Spring serves them: a slash after them changes nothing.
func TestLeafPathsAsSpring(t *testing.T) {
	for _, x := range []struct{ method, target, body string }{
		{http.MethodGet, segmentURL + "/", "1"},
		{http.MethodGet, "/api/segment/get/a%2Fb/", "1"},
		{http.MethodPost, snowflakeURL + "/", "1169786042799259000"},
	} {
		got, _, _ := exchange{method: x.method, target: x.target}.do()
		wantAnswer(t, got, http.StatusOK, x.body)
	}
	api := newAPI(&fakeQueue{})
	for _, path := range []string{"/cache", "/db", "/decodeSnowflakeId"} {
		query := "?snowflakeId=4194304"
		want := ask(api, http.MethodGet, path+query)
		check.Equal(t, ask(api, http.MethodGet, path+"/"+query).Body.String(), want.Body.String(), path)
	}
}
