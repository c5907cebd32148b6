package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
)

// brokenPipe panics when the answer is written, after its headers.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { panic("broken pipe") }

// A panic is one answer with code -11 and one log line with the stack, and the next request is served. After the
// headers there is no second answer.
func TestPanicIsAnsweredAndLogged(t *testing.T) {
	log := &strings.Builder{}
	opts, modes := testOptions(panicking("boom"), log)
	api := New(opts)
	check.Equal(t, ask(api, "GET", alice).Code, 500)
	check.Equal(t, strings.Count(log.String(), "level=ERROR"), 1, "lines")
	check.Has(t, log.String(), "fakes_test.go") // of the stack
	check.Has(t, log.String(), "path=/get")
	modes.queue.Fail = nil
	w := httptest.NewRecorder()
	api.ServeHTTP(brokenPipe{w}, httptest.NewRequest(http.MethodGet, alice, nil))
	wantAnswer(t, w, 200, "")
	check.Has(t, log.String(), "broken pipe")
	wantAnswer(t, ask(api, "GET", alice+"&count=1"), 200, `{"code":0,"ids":[32769]}`)
}

// A buffer that served a large batch, or a request that failed, serves the next one with
// nothing left over, whatever its mode.
func TestBuffersHoldNothingOver(t *testing.T) {
	opts, modes := testOptions(nil, io.Discard)
	metered(&opts)
	api := New(opts)
	ask(api, "GET", alice+"&count=10000")
	modes.queue.Restart(nil)
	wantAnswer(t, ask(api, "GET", alice+"&count=2"), 200, `{"code":0,"ids":[16385,32769]}`)
	modes.queue.Fail = fakes.Broken(model.ErrQueueEmpty)
	ask(api, "GET", alice)
	modes.queue.Restart(nil)
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	modes.queue.Restart(nil)
	ask(api, "GET", uidURL+"?count=10000")
	wantAnswer(t, ask(api, "GET", segmentURL), 200, "1")
	wantAnswer(t, ask(api, "GET", segmentURL+"?count=2"), 200, "2\n3\n")
	modes.segment.Fail = panicking("boom")
	wantAnswer(t, ask(api, "GET", segmentURL), 500,
		`{"code":-11,"message":"try again: internal error, which has been logged"}`)
	wantAnswer(t, ask(api, "GET", alice), 200, `{"code":0,"id":16385,"idStr":"16385"}`)
	check.Equal(t, metricOf(t, api, "shardid_faults_total"), 1, "faults")
}

// waitForEnd is a queue that has nothing until the request ends.
func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A client that went gets an error, without a word in the log above debug, and nothing that could be an ID.
func TestRequestThatEnds(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	api, log := logging(waitForEnd, metered)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, alice, nil))
	wantAnswer(t, w, http.StatusServiceUnavailable,
		`{"code":-4,"message":"try again: the request was given up while it waited: nothing was issued"}`)
	check.Equal(t, w.Header().Get("Retry-After"), "1")
	check.Equal(t, metricOf(t, api, "shardid_refused_total"), 0, "callers who waited in vain")
	check.Lacks(t, log.String(), "level=ERROR")
}

// What is accepted is in range, and url.ParseQuery reads the same from it: a
// proxy that looks at appId sees the app that an ID is issued for.
func FuzzParseGet(f *testing.F) {
	for _, x := range idExchanges() {
		_, query, _ := strings.Cut(x.target, "?")
		f.Add(query)
	}
	for _, query := range []string{
		"appId=1&gatePass=a;b", "appId=1;gatePass=a&gatePass=b", "app+Id=1&gatePass=a", "%61ppId=1&appId=2&gatePass=a",
		"appId=007&gatePass=a&count=010000", "appId=1&gatePass=%F0%9F%98%80", "appId=1&gatePass=a&count=1_0",
		"appId=%31&gatePass=+",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, unreadable := url.ParseQuery(query)
		request := &gin.Context{Request: &http.Request{URL: &url.URL{RawQuery: query}}}
		p, err := ofGet.parse(request, idRequest{})
		if err != nil {
			if !errors.Is(err, model.ErrInvalidArgument) {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		inRange := p.App >= 0 && p.App < model.Apps && p.Count >= 1 && p.Count <= model.MaxBatch &&
			(p.batch || p.Count == 1)
		pass := values.Get("gatePass")
		if !inRange || p.Shard >= model.Shards || unreadable == nil && !values.Has("shard") &&
			(pass == "" || len(pass) > idtext.MaxGatePassBytes || !utf8.ValidString(pass)) {
			t.Fatalf("%q accepted as %+v", query, p)
		}
		if unreadable == nil {
			sameAs(t, p, values)
		}
	})
}

func sameAs(t *testing.T, p idRequest, values url.Values) {
	t.Helper()
	want := idRequest{form: p.form, batch: len(values["count"]) > 0}
	want.Shard, want.Count = idtext.ShardOf(values.Get("gatePass")), 1
	if values.Has("shard") {
		n, _ := strconv.ParseUint(values.Get("shard"), 10, 8)
		want.Shard = uint8(n)
	}
	want.App, _ = strconv.Atoi(values.Get("appId"))
	if want.batch {
		want.Count, _ = strconv.Atoi(values.Get("count"))
	}
	want.stringify, _ = strconv.ParseBool(values.Get("stringify"))
	if format := values.Get("format"); p != want ||
		len(values["appId"]) > 0 && (format == "text") != (p.form == asLines) {
		t.Fatalf("read %+v, url.ParseQuery %+v", p, want)
	}
}

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// hot are the requests whose answers cost no allocation: what a client sends who
// wants one ID, or a batch that is not very long.
func hot() []exchange {
	return []exchange{
		{name: "get", target: alice},
		{name: "get, batch", target: alice + "&count=10&stringify=1"},
		{name: "get, text", target: alice, accept: "text/plain"},
		{name: "segment", target: segmentURL},
		{name: "segment, batch", target: segmentURL + "?count=10"},
		{name: "segment, JSON", target: segmentURL, accept: "application/json, text/plain, */*"},
		{name: "segment, browser", target: segmentURL, accept: browserAccept},
		{name: "snowflake", target: snowflakeURL, accept: "*/*"},
		{name: "uid", target: uidURL},
	}
}

func (x exchange) serve() (api *API, w http.ResponseWriter, r *http.Request) {
	r = x.request()
	r.Header.Set("Accept", x.accept)
	r.Host = "127.0.0.1:8080"
	return newAPIOf(func(o *Options) {
		o.OwnHosts = true
		if x.token != "" {
			r.Header.Set("Authorization", "Bearer sesame-"+x.token)
			o.Access, o.RequireToken = fakes.Guard("", x.token, "may: ['queue:*', 'segment:*', snowflake, uid]"), true
		}
	}), sink{http.Header{}}, r
}

// A request costs no allocation, one with an ID of its own neither. One with a token costs
// what keeps the token's name in the request: gin's map.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if check.Race() {
		t.Skip("the race detector makes sync.Pool forget")
	}
	for _, x := range hot() {
		named, known := x, x
		named.header, known.token = []string{requestIDHeader, "a-1"}, "all"
		for most, x := range map[float64][]exchange{0: {x, named}, 3: {known}} {
			for _, x := range x {
				api, w, r := x.serve()
				// Below the next, as the collector may empty the pools meanwhile.
				if n := testing.AllocsPerRun(1000, func() { api.ServeHTTP(w, r) }); n >= most+1 {
					t.Errorf("%s, header %q, token %q: %v allocations", x.name, x.header, x.token, n)
				}
				if got := w.Header().Get(requestIDHeader); x.header != nil && got != "a-1" {
					t.Errorf("%s: the ID is shown as %q", x.name, got)
				}
			}
		}
	}
}

func BenchmarkModes(b *testing.B) {
	for _, x := range append(hot(), exchange{name: "segment, batch of 100", target: segmentURL + "?count=100"}) {
		b.Run(x.name, func(b *testing.B) {
			api, w, r := x.serve()
			b.ReportAllocs()
			for b.Loop() {
				api.ServeHTTP(w, r)
			}
		})
	}
}
