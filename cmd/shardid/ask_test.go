package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/model/witness"
	"shardid/scripts/check"
	"shardid/service/monitor"
)

func TestServerToAsk(t *testing.T) {
	for _, c := range []struct{ url, addr, cert, want string }{
		{"", "127.0.0.1:8080", "", "http://127.0.0.1:8080"},
		{"", "[::]:9", "", "http://127.0.0.1:9"},
		{"", "[::1]:8080", "", "http://[::1]:8080"},
		{"", ":8080", "server.pem", "https://127.0.0.1:8080"},
		{"/livez", ":8080", "", "http://127.0.0.1:8080/livez"},
		{"http://10.0.0.5:8080", ":1", "server.pem", "http://10.0.0.5:8080"},
		{"https://ids.example.com/", "", "", "https://ids.example.com"},
		{"http://10.0.0.5:8080/livez", "", "", "http://10.0.0.5:8080/livez"},
		{"http://10.0.0.5:8080?count=2", "", "", ""},
		{"", "127.0.0.1:0", "", ""},
		{"10.0.0.5:8080", "", "", ""},
		{"http://", "", "", ""},
		{"http://user:secret@10.0.0.5", "", "", ""},
	} {
		got, _, err := asking{url: c.url}.resolve(Config{Server: ServerConfig{Addr: c.addr, TLSCertFile: c.cert}})
		if got != c.want || (err != nil) != (c.want == "") || err != nil && !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestHealthOfOwnTLS: the server's certificate is for another name than the
// loopback's, and that is no illness; of any other server it is.
func TestHealthOfOwnTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, r.URL.Path, "/readyz")
		_, _ = w.Write([]byte(`{"status":"ok"}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	cfg := Config{Server: ServerConfig{Addr: server.Listener.Addr().String(), TLSCertFile: "server.pem"}}
	for name, c := range map[string]struct {
		flags asking
		ok    bool
	}{
		"own":              {asking{}, true},
		"another":          {asking{url: server.URL}, false},
		"another, trusted": {asking{url: server.URL, insecure: true}, true},
	} {
		c.flags.timeout = time.Minute
		if _, err := c.flags.health(t.Context(), cfg); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAskHealth: only a 200 in shardid's own words is healthy.
func TestAskHealth(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string // of the report
		fails  string // part of the error
	}{
		"ready": {200, `{"status":"ok","checks":[]}`, "ok", ""},
		"degraded": {200, `{"status":"degraded","message":"snowflake: no lease"}`,
			"degraded: snowflake: no lease", ""},
		"not ready": {503, `{"status":"not ready","message":"shutting down"}`, "",
			"shutting down: not ready: http://"},
		"another one": {200, `<html>welcome</html>`, "", "correct --url or server.addr: what answers there is no " +
			"shardid"},
		"an empty body":  {503, ``, "", "correct --url or server.addr: what answers there is no shardid: http://"},
		"one that hangs": {0, ``, "", "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status == 0 {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			if c.status == 0 {
				timeout = 50 * time.Millisecond
			}
			r, err := asking{url: server.URL, timeout: timeout}.health(t.Context(), Config{})
			if c.fails == "" && (err != nil || r.line() != c.want) {
				t.Errorf("%q, %v", r.line(), err)
			}
			if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%q, %v", r.line(), err)
			}
		})
	}
}

// A critical alarm is a failure of `shardid status` and `shardid doctor`, another one is none.
func TestStatusCommand(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 18, 0, 0, time.FixedZone("", 8*3600))
	s := monitor.Status{Version: "1.2.3", StartedAt: at, Ready: true,
		Witness: &witness.Vouching{State: witness.None},
		Modes:   map[string]monitor.ModeStatus{"queue": {Enabled: true, Ready: true, Since: at}},
		Alarms:  []monitor.Alarm{{Name: "ShardidStarved", Severity: monitor.Warning, Since: at}},
	}
	check.OK(t, trouble(s), "a warning")
	s.Alarms = append(s.Alarms, monitor.Alarm{Name: "ShardidStoreAway", Severity: monitor.Critical})
	if err := trouble(s); err == nil || !strings.HasSuffix(err.Error(), ": critical: ShardidStoreAway") {
		t.Errorf("a critical one: %v", err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s)
	}))
	defer server.Close()
	cfg := Config{Server: ServerConfig{Addr: server.Listener.Addr().String()}}
	for i, f := range askReplicas(t.Context(), cfg, asking{timeout: time.Minute}) {
		check.Equal(t, f.Value+" "+string(f.Level), []string{"ShardidStarved warn", "ShardidStoreAway unsafe"}[i])
	}
	s.Alarms, s.Ready, s.Message = nil, false, "shutting down"
	if err := trouble(s); err == nil || !strings.Contains(err.Error(), "shutting down: the server is not ready") {
		t.Errorf("not ready: %v", err)
	}
	for want, s := range map[string]monitor.Status{
		"ready":    {Ready: true, Alarms: []monitor.Alarm{{Severity: monitor.Warning}}},
		"degraded": {Ready: true, Message: "uid: no worker ID"},
	} {
		check.Equal(t, summary(s), want)
	}
	check.Equal(t, summary(monitor.Status{Ready: true, Alarms: []monitor.Alarm{{Severity: monitor.Critical}}}),
		"degraded", "a critical alarm")
	var out strings.Builder
	statusTable(&out, s)
	for _, want := range []string{
		"is not ready, started at 2026-11-20T00:18:00Z\t", "queue\tready\t2026-11-20T00:18:00Z\t",
		"witness\tnone\t-\tnobody vouches",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nhas no %q", &out, want)
		}
	}
}
