package httpapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// do runs the exchange against an API of its own and also returns what served it.
func (x exchange) do() (*httptest.ResponseRecorder, *fakeQueue, *fakeModes) {
	q := x.queue
	if q == nil {
		q = &fakeQueue{}
	}
	opts, modes := testOptions(q, nil, io.Discard)
	if x.change != nil {
		x.change(&opts)
	}
	return x.ask(New(opts)), q, modes
}

// request is the exchange's, without its headers but that of its body.
func (x exchange) request() *http.Request {
	if x.send == "" {
		return httptest.NewRequest(x.verb(), x.target, nil)
	}
	r := httptest.NewRequest(x.verb(), x.target, strings.NewReader(x.send))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func (x exchange) verb() string {
	if x.method == "" {
		return http.MethodGet
	}
	return x.method
}

func TestAnswers(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, q, modes := x.do()
			checkHeaders(t, x, got.Header(), got.Body.Len())
			if x.status == http.StatusOK {
				wantAnswer(t, got, x.status, x.body)
				return
			}
			checkError(t, x, got)
			if q.index != 0 || q.calls != 0 && x.queue == nil {
				t.Errorf("%d calls took %d IDs", q.calls, q.index)
			}
			if modes.calls() != 0 || modes.issued() != 0 {
				t.Errorf("%d calls took %d IDs of the modes", modes.calls(), modes.issued())
			}
		})
	}
}

// checkError wants {"code":N,"message":"…"}, byte for byte, with the message in
// the form in which it can be read.
func checkError(t *testing.T, x exchange, got *httptest.ResponseRecorder) {
	t.Helper()
	var parsed struct{ Message string }
	if err := json.Unmarshal(got.Body.Bytes(), &parsed); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	wantAnswer(t, got, x.status, fmt.Sprintf(`{"code":%d,"message":%s}`, x.code, appendJSON(nil, parsed.Message)))
	if !strings.Contains(parsed.Message, x.says) || strings.Contains(got.Body.String(), "secret") {
		t.Errorf("message %q, want %q in it", parsed.Message, x.says)
	}
}

// The bytes of an error, its URL fit to be copied from a terminal.
func TestErrorCanBeRead(t *testing.T) {
	wantAnswer(t, ask(newAPI(&fakeQueue{}), http.MethodGet, "/nope"), 404,
		`{"code":-10,"message":"no such path \"/nope\": try GET /get?appId=1&gatePass=alice"}`)
}

// checkHeaders wants no-store on every answer, nosniff on each but IDs, Retry-After
// on each 503 and Allow on each 405, and only there. The length of a short body is
// for net/http to say, unless it does not see the body.
func checkHeaders(t *testing.T, x exchange, h http.Header, length int) {
	t.Helper()
	want := map[string]string{
		"Content-Type":           "application/json; charset=utf-8",
		"Cache-Control":          "no-store",
		"X-Content-Type-Options": "nosniff",
	}
	if x.method == http.MethodHead {
		want["Content-Length"] = strconv.Itoa(length)
	}
	switch x.status {
	case http.StatusOK:
		if strings.Contains(x.target, "/get") {
			delete(want, "X-Content-Type-Options")
		}
		if x.text {
			want["Content-Type"] = "text/plain; charset=utf-8"
		}
	case http.StatusServiceUnavailable:
		want["Retry-After"] = "1"
	case http.StatusMethodNotAllowed:
		want["Allow"] = http.MethodGet
	}
	if x.status != http.StatusOK {
		want[requestIDHeader] = h.Get(requestIDHeader) // each has one of its own
	}
	if len(h) != len(want) {
		t.Errorf("headers %v, want %v", h, want)
	}
	for name, value := range want {
		if got := h.Values(name); len(got) != 1 || got[0] != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// The table of the contract, as it is written there.
func TestErrorTableIsTheContracts(t *testing.T) {
	got := map[string]bool{}
	for _, x := range exchanges() {
		got[fmt.Sprint(x.code, " ", x.status)] = true
	}
	for _, want := range []string{"0 200", "-1 503", "-2 404", "-3 404", "-4 503", "-5 409", "-6 400", "-6 414", "-8 503", "-9 404", "-10 404", "-10 405", "-11 500"} {
		if !got[want] {
			t.Errorf("no exchange shows %q", want)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("beyond the contract: %v", got)
	}
}

// A batch of any size arrives whole and with its length, above all around the
// 2048 bytes from which on net/http would send chunks.
func TestBatchSizes(t *testing.T) {
	server := httptest.NewServer(newAPI(&fakeQueue{}))
	defer server.Close()
	for _, target := range []string{alice + "&count=", segmentURL + "?count=", snowflakeURL + "?count=", uidURL + "?count="} {
		for accept, separator := range map[string]string{"application/json": ",", "text/plain": "\n"} {
			for _, count := range append(around(100, 300), 1, 10_000) {
				got := fetch(t, http.MethodGet, server.URL+target+strconv.Itoa(count), accept)
				if n := strings.Count(got.body, separator); got.ContentLength != int64(len(got.body)) || n != count {
					t.Errorf("%s%d as %s: Content-Length %d of %d bytes, %d separators", target, count, accept, got.ContentLength, len(got.body), n)
				}
			}
		}
	}
}

func around(low, high int) []int {
	var all []int
	for n := low; n <= high; n++ {
		all = append(all, n)
	}
	return all
}
