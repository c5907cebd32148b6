package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardid/service/httpapi"
)

// Profiles are for who asks by an address or a known name, and for a bounded time.
func TestPprofIsScreened(t *testing.T) {
	for _, c := range []struct {
		name, host, method, target, origin string
		hosts                              httpapi.Hosts
		status                             int
		says                               string
	}{
		{"a person", "127.0.0.1:6060", "GET", "/debug/pprof/heap", "", httpapi.Hosts{Loopback: true}, 200, ""},
		{"for a while", "localhost:6060", "GET", "/debug/pprof/profile?seconds=60", "", httpapi.Hosts{Loopback: true}, 200, ""},
		{"a name that leads here", "evil.example:6060", "GET", "/debug/pprof/heap", "", httpapi.Hosts{Loopback: true}, 403, "evil.example"},
		{"off the loopback", "evil.example:6060", "GET", "/debug/pprof/heap", "", httpapi.Hosts{}, 403, "is not in server.allowed_hosts"},
		{"off the loopback, by address", "10.0.0.5:6060", "GET", "/debug/pprof/heap", "", httpapi.Hosts{}, 200, ""},
		{"off the loopback, listed", "ids.example:6060", "GET", "/debug/pprof/heap", "", httpapi.Hosts{Allowed: []string{"ids.example"}}, 200, ""},
		{"a page of another site", "127.0.0.1:6060", "GET", "/debug/pprof/heap", "http://evil.example", httpapi.Hosts{Loopback: true}, 403, "a page of"},
		{"too long", "127.0.0.1:6060", "GET", "/debug/pprof/profile?seconds=61", "", httpapi.Hosts{}, 400, "at most 60"},
		{"far too long", "127.0.0.1:6060", "GET", "/debug/pprof/trace?seconds=1e300", "", httpapi.Hosts{}, 400, "at most 60"},
		{"no number", "127.0.0.1:6060", "GET", "/debug/pprof/trace?seconds=NaN", "", httpapi.Hosts{}, 400, "at most 60"},
		{"by a form", "127.0.0.1:6060", "POST", "/debug/pprof/profile", "", httpapi.Hosts{}, 405, "only GET"},
		{"names of addresses", "127.0.0.1:6060", "POST", "/debug/pprof/symbol", "", httpapi.Hosts{}, 200, ""},
	} {
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		r := httptest.NewRequest(c.method, c.target, strings.NewReader("seconds=1000"))
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		screenPprof(next, c.hosts).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}
