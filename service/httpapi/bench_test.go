package httpapi

import (
	"net/http"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/fakes"
)

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
