package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
		"another one": {200, `<html>welcome</html>`, "", "correct the URL or server.addr: what answers there is " +
			"not the HTTP of shardid"},
		"an empty body": {503, ``, "", "correct the URL or server.addr: what answers there is not the HTTP " +
			"of shardid: http://"},
		"a redirect":     {301, `moved`, "", "is not the HTTP of shardid: http://"},
		"one that hangs": {0, ``, "", "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status == 0 {
					<-r.Context().Done()
					return
				}
				w.Header().Set("Location", "http://127.0.0.1:1")
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

// A script that runs again meets no error when another process was faster; but what is there must be the same in all
// that cannot be changed.
func TestIfMissing(t *testing.T) {
	const there = `{"code":0,"tag":"a","step":9,"pattern":"{seq:4}","reset":"none","zone":"UTC","overflow":"widen"}`
	for name, c := range map[string]struct {
		body  map[string]any
		found bool
	}{
		"the same":        {map[string]any{"tag": "a", "pattern": "{seq:4}", "step": 7}, true},
		"another pattern": {map[string]any{"tag": "a", "pattern": "{seq:5}"}, false},
		"another zone":    {map[string]any{"tag": "a", "pattern": "{seq:4}", "zone": "+08:00"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			o := &order{ask: asking{timeout: time.Minute}}
			o.Kind = tagNoun().Kind
			o.ask.beside = inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch asked++; {
				case r.Method == http.MethodPost:
					w.WriteHeader(http.StatusConflict)
					_, _ = w.Write([]byte(`{"code":-13,"message":"it is there"}`))
				case asked == 1:
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write([]byte(`{"code":-2,"message":"there is none"}`))
				default:
					check.Equal(t, r.URL.Path, "/admin/tags/a")
					_, _ = w.Write([]byte(there))
				}
			})}
			got, what, err := o.add(t.Context(), Config{}, c.body, true)
			if c.found {
				check.Must(t, err)
				check.Equal(t, what, "is there, nothing was changed")
				check.Equal(t, got.fields["step"], any(json.Number("9")))
			} else {
				check.Has(t, fmt.Sprint(err), "it is there; what differs is ")
			}
			check.Equal(t, asked, 3, "requests")
		})
	}
}

// A store that answers in part is asked again, no finding is logged twice, and one that was mended is none any more,
// without a restart.
func TestSettingsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var asked atomic.Int32
		ask := func(context.Context) ([]model.Finding, error) {
			found := []model.Finding{
				{Node: "a", Setting: "policy", Level: model.LevelUnsafe},
				{Node: "a", Setting: "fine", Level: model.LevelOK},
				{Node: "a", Setting: "hidden", Level: model.LevelUnknown},
				{Node: "b", Setting: "policy", Level: model.LevelWarn},
			}
			switch asked.Add(1) {
			case 1:
				return nil, errors.New("unreachable")
			case 2:
				return found[:3], errors.New("one node is unreachable")
			case 3:
				return found, nil
			}
			found[0].Level = model.LevelOK
			return found, nil
		}
		w := newSettingsWatch(slog.New(slog.NewTextHandler(&out, nil)), inspection{"redis", ask})
		w.Start()
		time.Sleep(2*lookAgain + time.Second)
		got := w.Findings()
		if asked.Load() != 3 || len(got) != 4 || got[0].Level != model.LevelUnsafe || got[3].Node != "b" {
			t.Errorf("asked %d times, findings: %+v", asked.Load(), got)
		}
		time.Sleep(lookAgain)
		check.OK(t, w.Stop(t.Context(), nil))
		if got = w.Findings(); len(got) != 4 || got[0].Level != model.LevelOK {
			t.Errorf("later: %+v", got)
		}
		said := out.String()
		if strings.Count(said, "\n") != 2 || strings.Count(said, "node=a setting=policy") != 1 ||
			strings.Count(said, "node=b setting=policy") != 1 {
			t.Errorf("asked %d times: %s", asked.Load(), said)
		}
	})
}
