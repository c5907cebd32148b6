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

	"shardid/scripts/check"
)

func TestAnswers(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, q, modes := x.do()
			checkHeaders(t, x, got.Header())
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

// awaits is in the message of what nobody is to try again.
const awaits = "awaits an operator's confirmation"

// checkHeaders wants no-store on every answer, nosniff on each but IDs, Retry-After
// on each 503 but of what awaits an operator, and Allow on each 405, and only there. The length of a short body
// is for net/http to say.
func checkHeaders(t *testing.T, x exchange, h http.Header) {
	t.Helper()
	want := map[string]string{
		"Content-Type":           "application/json; charset=utf-8",
		"Cache-Control":          "no-store",
		"X-Content-Type-Options": "nosniff",
	}
	switch x.status {
	case http.StatusOK:
		if issues(x.target) {
			delete(want, "X-Content-Type-Options")
		}
		if x.text {
			want["Content-Type"] = "text/plain; charset=utf-8"
		}
	case http.StatusServiceUnavailable:
		if x.says != awaits {
			want["Retry-After"] = "1"
		}
	case http.StatusMethodNotAllowed:
		want["Allow"] = "GET, HEAD, OPTIONS"
		if issues(x.target) {
			want["Allow"] = "GET, HEAD, POST, OPTIONS"
		}
	}
	if x.status != http.StatusOK {
		want[requestIDHeader] = h.Get(requestIDHeader) // each has one of its own
	}
	check.Equal(t, len(h), len(want), "headers", h, want)
	for name, value := range want {
		if got := h.Values(name); len(got) != 1 || got[0] != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// issues says whether a target is of IDs.
func issues(target string) bool {
	return strings.Contains(target, "/get") || strings.HasPrefix(target, "/v1/") || strings.HasPrefix(target, "/tinyid/")
}

// HEAD is answered as GET, without the body, wherever GET is. It issues nothing: where GET has an ID,
// or has none to give, HEAD says that the request can be read.
func TestHeadWhereverGet(t *testing.T) {
	for _, x := range allExchanges() {
		if x.verb() != http.MethodGet {
			continue
		}
		x.method = http.MethodHead
		head, q, modes := x.do()
		length := head.Header().Get("Content-Length")
		if strings.HasPrefix(x.target, "/admin/pprof/") && x.status == http.StatusOK {
			length = strconv.Itoa(head.Body.Len()) // it is not known before the profile is written
		}
		switch {
		case !issues(x.target) && (head.Code != x.status || length != strconv.Itoa(head.Body.Len())):
			t.Errorf("%s: HEAD %s %d %v, want %d", x.name, x.target, head.Code, head.Header(), x.status)
		case issues(x.target) && (head.Code != x.status && head.Code != http.StatusOK || q.calls+modes.calls() > 0):
			t.Errorf("%s: HEAD %s %d, %d calls, want %d", x.name, x.target, head.Code, q.calls+modes.calls(), x.status)
		}
	}
}

// The table of the contract, as it is written there.
func TestErrorTableIsTheContracts(t *testing.T) {
	got := map[string]bool{}
	for _, x := range exchanges() {
		got[fmt.Sprint(x.code, " ", x.status)] = true
	}
	for _, want := range []string{"0 200", "-1 503", "-2 404", "-3 404", "-4 503", "-5 409", "-6 400", "-6 414", "-6 415", "-8 503", "-9 404", "-10 404", "-10 405", "-11 500"} {
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
				n := strings.Count(got.body, separator)
				if got.body[0] == '[' { // no separator before the first
					n++
				}
				if got.ContentLength != int64(len(got.body)) || n != count {
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

type answer struct {
	*http.Response
	body string
}

// fetch sends a request over a connection of its own.
func fetch(t *testing.T, method, url, accept string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	check.Must(t, err)
	r.Close = true
	r.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(r)
	check.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	check.Must(t, err)
	return answer{res, string(body)}
}

// Each mode counts its own requests, also those that a handler refuses before it asks the service.
func TestTraffic(t *testing.T) {
	api := newAPIOf(metered)
	for _, target := range []string{alice, alice + "&count=7", "/get?appId=1", segmentURL, uidURL, "/decode?id=x", "/get/more"} {
		ask(api, http.MethodGet, target)
	}
	for mode, want := range map[string][2]int{
		ModeQueue: {3, 1}, ModeSegment: {1, 0}, ModeSnowflake: {0, 0}, ModeUID: {1, 0},
	} {
		got := [2]int{metricOf(t, api, `shardid_request_duration_seconds_count{mode="`+mode+`"}`),
			metricOf(t, api, `shardid_refused_total{mode="`+mode+`"}`)}
		check.Equal(t, got, want, mode)
	}
	check.Equal(t, metricOf(t, api, `shardid_refused_total{code="-6"}`), 1, "invalid argument")
}
