package main

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/scripts/check"
	"shardid/service/httpapi"
)

// TestServerOutlastsItsCallers: a deadline of the connection that ends while a
// request waits would cancel it.
func TestServerOutlastsItsCallers(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"queue":     func(c *Config) { c.Queue.Timeout = time.Minute },
		"segment":   func(c *Config) { c.Segment.Timeout = time.Minute },
		"snowflake": func(c *Config) { c.Snowflake.Timeout = time.Minute },
		"uid":       func(c *Config) { c.UID.Timeout = time.Minute },
	} {
		cfg := config.Defaults().Config
		set(&cfg)
		if l := limits(cfg); l.New != cfg.Server.ReadHeaderTimeout || l.Idle != cfg.Server.IdleTimeout || l.Active <= time.Minute || l.Most < 1 {
			t.Errorf("%s: %+v", name, l)
		}
		cfg.Server.TLSCertFile = "cert.pem"
		s := newServer(cfg, nil, nil, slog.New(slog.DiscardHandler))
		if s.ReadTimeout <= time.Minute || s.WriteTimeout <= time.Minute || s.IdleTimeout != cfg.Server.IdleTimeout {
			t.Errorf("%s: streams: read %v, write %v, idle %v", name, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
		}
	}
}

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

// The percentage follows the heap from collection to collection, and not at all
// when the operator sets one.
func TestWidenGC(t *testing.T) {
	const normal = 100
	current := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(normal))
	t.Setenv("GOGC", "100")
	widenGC()
	runtime.GC()
	check.Equal(t, current(), normal, "with GOGC set")
	t.Setenv("GOGC", "")
	widenGC()
	await := func(what string, want func(int) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !want(current()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s: %d %%", what, current())
			}
		}
	}
	func() {
		held := make([]byte, 2*heapRoom)
		await("with a large heap", func(p int) bool { return p == normal })
		runtime.KeepAlive(held)
	}()
	await("with a small one", func(p int) bool { return p > normal+50 })
}

// TestNotify: what systemd is told arrives, and nothing is said without it.
func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify") //nolint:usetesting // t.TempDir is longer than a socket's path may be
	check.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	conn, err := net.ListenPacket("unixgram", path)
	check.Must(t, err)
	defer conn.Close()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	t.Setenv("NOTIFY_SOCKET", "")
	notify(t.Context(), log, "X=1") // to nobody
	t.Setenv("NOTIFY_SOCKET", path)
	notify(t.Context(), log, notifyReady)

	check.Must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got := make([]byte, 100)
	n, _, err := conn.ReadFrom(got)
	if err != nil || string(got[:n]) != "READY=1" || out.Len() != 0 {
		t.Errorf("%q, %v, log %q", got[:n], err, &out)
	}
	t.Setenv("NOTIFY_SOCKET", path+".gone")
	notify(t.Context(), log, notifyStopping)
	if !strings.Contains(out.String(), "systemd could not be told") {
		t.Errorf("log: %q", &out)
	}
}
