package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"shardid/scripts/check"
)

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

func BenchmarkGet(b *testing.B) {
	for _, c := range []struct{ name, target, accept string }{
		{"one", alice, ""},
		{"one, browser", alice, browserAccept},
		{"one, text", alice, "text/plain"},
		{"one, encoded", "/get?appId=1&gatePass=%E5%BC%A0%E4%B8%89", ""},
		{"batch of 100", alice + "&count=100", ""},
		{"refused", "/get?appId=300&gatePass=alice", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			api := newAPI(&fakeQueue{})
			r := httptest.NewRequest(http.MethodGet, c.target, nil)
			r.Header.Set("Accept", c.accept)
			w := sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				api.ServeHTTP(w, r)
			}
		})
	}
}

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
	return newAPIOf(func(o *Options) {
		if x.token != "" {
			r.Header.Set("Authorization", "Bearer "+x.token)
			o.Access, o.RequireToken = guardOf("", x.token, "may: ['queue:*', 'segment:*', snowflake, uid]"), true
		}
	}), sink{http.Header{}}, r
}

// A request costs no allocation, one with an ID of its own neither. One with a token costs
// what keeps the token's name in the request: gin's map.
func TestHotPathDoesNotAllocate(t *testing.T) {
	if check.Race {
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

func BenchmarkWithToken(b *testing.B) {
	x := hot()[0]
	x.token = "all"
	api, w, r := x.serve()
	b.ReportAllocs()
	for b.Loop() {
		api.ServeHTTP(w, r)
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

func BenchmarkParseGet(b *testing.B) {
	for name, query := range map[string]string{
		"plain":   "appId=1&gatePass=alice&count=100&stringify=true",
		"encoded": "appId=1&gatePass=%E5%BC%A0%E4%B8%89",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(&ofGet, query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendArray(b *testing.B) {
	ids := make([]int64, 1000)
	for i := range ids {
		ids[i] = int64(i+1) << 40
	}
	for name, stringify := range map[string]bool{"numbers": false, "strings": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var body []byte
			for b.Loop() {
				body = appendArray(body[:0], ids, stringify)
			}
		})
	}
}
