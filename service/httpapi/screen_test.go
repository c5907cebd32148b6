package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.8.9.10:1": true, "localhost": true, "LocalHost:8080": true, "[::1]": true, "[::1]:8080": true, "::1": true,
		"[::ffff:127.0.0.1]:80": true, "": true,
		"evil.example": false, "evil.example:8080": false, "127.0.0.1.evil.example": false, "localhost.evil.example:80": false, "10.0.0.5:8080": false,
		"0.0.0.0:8080": false, "[::]:8080": false, "[2001:db8::1]:80": false, "localhost@evil.example": false, "127.1": false, "a:b:c": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %t", host, got)
		}
	}
}

// What a page of another site makes a browser send issues and shows nothing; the probes
// answer everybody.
func TestScreen(t *testing.T) {
	q := &fakeQueue{}
	opts, modes := testOptions(q, nil, nil)
	opts.Log, opts.Admin = newAPI(q).opts.Log, &fakeAdmin{}
	local, public := opts, opts
	local.Loopback = true
	for _, c := range []struct {
		name, host, site, says string
		public, refused        bool
	}{
		{"curl", "127.0.0.1:8080", "", "", false, false},
		{"another port", "localhost:9", "", "", false, false},
		{"the console", "localhost:8080", "same-origin", "", false, false},
		{"typed", "[::1]:8080", "none", "", false, false},
		{"a page of another site", "127.0.0.1:8080", "cross-site", "another site", false, true},
		{"a name that leads here", "evil.example:8080", "same-origin", "server.addr", false, true},
		{"the same by an old browser", "evil.example", "", `the host \"evil.example\"`, false, true},
		{"a public server", "ids.example", "", "", true, false},
		{"a public server's console", "ids.example", "same-origin", "", true, false},
		{"a page of another site, public", "ids.example", "cross-site", "another site", true, true},
	} {
		api := New(local)
		if c.public {
			api = New(public)
		}
		for _, route := range api.engine.Routes() {
			path, _, _ := strings.Cut(route.Path, "*")
			if route.Path == "/get" {
				path = alice
			}
			r := httptest.NewRequest(route.Method, path, nil)
			r.Host = c.host
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			w := httptest.NewRecorder()
			issued := q.calls + modes.calls()
			api.ServeHTTP(w, r)
			what := fmt.Sprintf("%s: %s %s: %d %.300s", c.name, route.Method, path, w.Code, w.Body)
			is := w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), `"code":-7`) && strings.Contains(w.Body.String(), "Nothing was issued")
			if isHealth(path) {
				is = w.Code != http.StatusOK
				if is {
					t.Error(what)
				}
				continue
			}
			if is != c.refused || c.refused && (!strings.Contains(w.Body.String(), c.says) || issued != q.calls+modes.calls()) {
				t.Error(what)
			}
		}
	}
}

// A replica that goes away says so with every answer, and no other does.
func TestDrainClosesConnections(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for _, draining := range []bool{false, true} {
		for _, target := range []string{alice, "/readyz", "/nothing", "/get?" + strings.Repeat("x", maxURL)} {
			if got := ask(api, http.MethodGet, target).Header().Get("Connection") == "close"; got != draining {
				t.Errorf("%.20s: closes: %t, draining: %t", target, got, draining)
			}
		}
		api.Drain()
	}
}
