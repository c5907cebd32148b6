package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/monitor"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
)

// fullStatus has every field.
func fullStatus(context.Context) Status {
	app := queue.View{
		App: 1, Name: "test", Step: 1000, Limit: model.Limit{MaxID: math.MaxInt64, Policy: model.LimitReject},
		Issued: 5, Refills: 64, Held: 2, PerSecond: 0.5, Highest: 2000, Left: 0.25, Exhausted: 3, Unconfirmed: 4, Unused: []int{7, 63},
	}
	for i := range app.Depths {
		app.Depths[i] = int64(i) - 1
	}
	return Status{
		Version: "1.2.3", StartedAt: loaded,
		Alarms:  []monitor.Alarm{{Name: "ShardidStarved", Severity: monitor.Critical, Message: "callers got -4", Since: loaded}, {Name: "ShardidSlow", Severity: monitor.Warning, Message: "slow", Since: loaded}},
		Witness: &WitnessStatus{State: WitnessNamed, HeldSince: loaded},
		Queue:   &queue.Status{Issued: 7, Pops: 6, Refills: 65, Held: 3, Wasted: map[string]int64{"purged": 9}, Apps: []queue.View{app}},
		Segment: &segment.Status{Issued: 8, Tags: heldOf(fakeViews()...).Used()},
		Snowflake: &SnowflakeStatus{
			Issued: 9, WorkerID: 21, Mode: "mysql", Address: "10.0.0.5:8080", State: "serving", ReservedUntil: loaded,
			TrustSeconds: 7.5, ClockOffsetSeconds: -0.25, RemainingLifetimeSeconds: 1_000_000_000, Error: "away",
		},
		UID: &uid.Status{
			Issued: 10, Mode: "cached", WorkerID: 3, NodeID: 3, RingSize: 65536, RingFill: 40000,
			LastSecond: uid.Second(loaded.Unix()), AheadSeconds: 7, MarkedUntil: uid.Second(loaded.Unix() + 3600), RemainingSeconds: 1_000_000_000,
		},
	}
}

// What the services say is passed on, and what the API knows is added.
func TestStatus(t *testing.T) {
	away := wrap(model.ErrNoLease)
	api := newAPIOf(func(o *Options) {
		o.Status, o.UID, o.Modes = fullStatus, nil, o.Modes[:3]
		o.Modes[2].Ready = func() error { return away }
	})
	api.now = func() time.Time { return loaded }
	got := ask(api, http.MethodGet, "/api/status")
	for _, want := range []string{
		`{"version":"1.2.3","startedAt":"2026-11-20T00:18:00Z","ready":false,"message":"starting: snowflake: next: no worker ID is held","modes":{`,
		`"queue":{"enabled":true,"ready":true,"since":"2026-11-20T00:18:00Z"}`,
		`"segment":{"enabled":true,"ready":true,"since":"2026-11-20T00:18:00Z"}`,
		`"snowflake":{"enabled":true,"ready":false,"since":"2026-11-20T00:18:00Z","error":"next: no worker ID is held"}`,
		`"uid":{"enabled":false,"ready":false}`,
		`"stores":[{"name":"database","ok":true,`,
		`"alarms":[{"name":"ShardidStarved","severity":"critical","message":"callers got -4","since":"2026-11-20T00:18:00Z"},`,
		`"message":"slow","since":"2026-11-20T00:18:00Z"}],"witness":{"state":"named","heldSince":"2026-11-20T00:18:00Z"},`,
		`{"issued":7,"pops":6,"refills":65,"held":3,"wasted":{"purged":9},"apps":[{"appId":1,"name":"test","step":1000,"maxLimitId":9223372036854775807,"limitPolicy":"reject",`,
		`"issued":5,"refills":64,"held":2,"issuedPerSecond":0.5,"highestIndex":2000,"leftShare":0.25,"exhausted":3,"unconfirmed":4,"unused":[7,63],"depths":[-1,0,1,`,
		`62],"maxLimitIdStr":"9223372036854775807"}]`,
		`"value0":9007199254740993,`, `"value0Str":"9007199254740993","max0Str":"9007199254741993",`,
		`"workerId":21,"mode":"mysql","address":"10.0.0.5:8080","state":"serving","reservedUntil":"2026-11-20T00:18:00Z","trustSeconds":7.5,`,
		`"ringSize":65536,"ringFilled":40000,"lastSecond":"2026-11-20T00:18:00Z","aheadSeconds":7,"markedUntil":"2026-11-20T01:18:00Z"`,
	} {
		if got.Code != 200 || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%d %s\nhas no %s", got.Code, got.Body, want)
		}
	}
	check.Equal(t, got.Header().Get("Cache-Control"), "no-store", "Cache-Control")
	// shardid status reads it back.
	api = newAPIOf(func(o *Options) { o.Status = fullStatus })
	body := ask(api, http.MethodGet, "/api/status").Body.Bytes()
	var s Status
	if err := json.Unmarshal(body, &s); err != nil || s.Queue.Apps[0].MaxID != math.MaxInt64 || s.UID.LastSecond != uid.Second(loaded.Unix()) {
		t.Errorf("%v, read %+v", err, s)
	}
}

// Without Options.Status there is what the API knows itself. The readiness of the
// status and that of /readyz are one.
func TestStatusOfTheAPIAlone(t *testing.T) {
	var s Status
	for _, ready := range []bool{true, false} {
		api := newAPIOf(disableModes)
		if !ready {
			api.Drain()
		}
		check.Must(t, json.Unmarshal(ask(api, http.MethodGet, "/api/status").Body.Bytes(), &s))
		if s.Ready != ready || len(s.Modes) != 5 || len(s.Stores) != 2 || s.Segment != nil || s.Alarms == nil {
			t.Errorf("%+v, want ready %t", s, ready)
		}
	}
}

func fakeReplicas(context.Context) monitor.View {
	return monitor.View{Self: "a", Shared: true, Message: "redis: away", Replicas: []monitor.Record{{
		Instance: "a", Host: "h", URL: "http://10.0.0.5:8080/", Version: "1.2.3", StartedAt: loaded, Ready: true,
		Modes:    map[string]monitor.ModeRecord{ModeQueue: {Enabled: true, Ready: true, IDsPerSecond: 0.5}},
		WorkerID: -1, Alarms: map[string]int{"critical": 1}, AgeSeconds: 2.5,
	}}}
}

func withReplicas(o *Options) { o.Replicas = fakeReplicas }

func TestReplicas(t *testing.T) {
	wantAnswer(t, ask(newAPIOf(withReplicas), http.MethodGet, "/api/replicas"), 200,
		`{"self":"a","shared":true,"message":"redis: away","replicas":[{"instance":"a","host":"h","url":"http://10.0.0.5:8080/","version":"1.2.3","startedAt":"2026-11-20T00:18:00Z","ready":true,`+
			`"modes":{"queue":{"enabled":true,"ready":true,"idsPerSecond":0.5}},"workerId":-1,"alarms":{"critical":1},"ageSeconds":2.5}]}`)
	wantAnswer(t, ask(newAPI(&fakeQueue{}), http.MethodGet, "/api/replicas"), 200, `{"self":"","shared":false,"replicas":[]}`)
}

// fakeHistory has one sample of an app that existed, and knows which was asked for.
type fakeHistory struct{}

func (fakeHistory) History() monitor.Chart {
	return chart(map[string][]monitor.Value{
		"queue.issued": {0.12345, 2}, "queue.p99Ms": {monitor.Value(math.NaN()), 1e6},
	})
}

func (fakeHistory) AppHistory(app uint8) monitor.Chart {
	return chart(map[string][]monitor.Value{"app.issued": {monitor.Value(app), monitor.Value(math.Inf(1))}})
}

func chart(series map[string][]monitor.Value) monitor.Chart {
	return monitor.Chart{PeriodSeconds: 5, Times: []int64{1795192496, 1795192501}, Series: series}
}

func withHistory(o *Options) { o.History = fakeHistory{} }

func TestHistory(t *testing.T) {
	const head = `{"periodSeconds":5,"times":[1795192496,1795192501],"series":`
	api := newAPIOf(withHistory)
	for target, want := range map[string]string{
		"/api/history":              head + `{"queue.issued":[0.123,2],"queue.p99Ms":[null,1000000]}}`,
		"/api/history?x=1&ap%70=7":  head + `{"app.issued":[7,null]}}`,
		"/api/history?app=0":        head + `{"app.issued":[0,null]}}`,
		"/api/history?app=255&y":    head + `{"app.issued":[255,null]}}`,
		"/api/history?application=": head + `{"queue.issued":[0.123,2],"queue.p99Ms":[null,1000000]}}`,
	} {
		wantAnswer(t, ask(api, http.MethodGet, target), 200, want)
	}
	wantAnswer(t, ask(newAPI(&fakeQueue{}), http.MethodGet, "/api/history"), 200, `{"periodSeconds":5,"times":[],"series":{}}`)
}

// Readiness is that of any mode, and of one mode by its name; /healthz is of everything.
func TestReadiness(t *testing.T) {
	const away = "read 10.0.0.1:1->10.0.0.2:2: connection reset"
	database := fakeConditions{"database"}
	lost := fmt.Errorf("%w: the registry is away", model.ErrNoLease)
	for _, c := range []struct {
		name                         string
		failing                      fakeConditions
		queue, snowflake, uid        error
		drain, young                 bool
		readyz, readyzOfUID, healthz string // status, then what the body begins with
	}{
		{
			name:   "all well",
			readyz: `200 {"status":"ok","checks":`, readyzOfUID: `200 {"status":"ok",`, healthz: `200 {"status":"ok",`,
		},
		{
			name: "a store is away, and every mode serves", failing: database,
			readyz: `200 {"status":"degraded","message":"database: ` + away + `",`, readyzOfUID: `200 {"status":"degraded",`,
			healthz: `503 {"status":"degraded","message":"database: ` + away + `",`,
		},
		{
			name: "the queue cannot serve", queue: wrap(model.ErrNotReady),
			readyz: `200 {"status":"degraded","message":"queue: next: not initialised yet",`, readyzOfUID: `200 {"status":"degraded",`,
			healthz: `503 {"status":"degraded","message":"queue: next: not initialised yet",`,
		},
		{
			name: "one mode serves alone", failing: database, queue: wrap(model.ErrNotReady), snowflake: lost,
			readyz: `200 {"status":"degraded","message":"database: `, readyzOfUID: `200 {"status":"degraded",`,
			healthz: `503 {"status":"degraded","message":"database: `,
		},
		{
			name: "none serves", failing: database, queue: wrap(model.ErrNotReady), snowflake: lost, uid: lost,
			readyz:      `503 {"status":"not ready","message":"no mode can serve: queue: next: not initialised yet",`,
			readyzOfUID: `503 {"status":"not ready","message":"no worker ID is held: the registry is away",`,
			healthz:     `503 {"status":"degraded","message":"database: `,
		},
		{
			name: "one mode cannot serve yet", snowflake: lost, young: true,
			readyz:      `503 {"status":"not ready","message":"starting: snowflake: no worker ID is held: the registry is away",`,
			readyzOfUID: `200 {"status":"degraded",`, healthz: `503 {"status":"degraded","message":"snowflake: `,
		},
		{
			name: "draining", drain: true,
			readyz: `503 {"status":"not ready","message":"shutting down",`, readyzOfUID: `503 {"status":"not ready","message":"shutting down",`,
			healthz: `200 {"status":"ok",`,
		},
		{
			name: "draining, and all else fails", failing: database, queue: lost, snowflake: lost, uid: lost, drain: true,
			readyz: `503 {"status":"not ready","message":"shutting down",`, readyzOfUID: `503 {"status":"not ready","message":"shutting down",`,
			healthz: `503 `,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts, _ := testOptions(&fakeQueue{ready: c.queue}, c.failing, io.Discard)
			opts.Segment, opts.Sequence = nil, nil
			opts.Modes = []Mode{opts.Modes[0], {ModeSnowflake, func() error { return c.snowflake }}, {ModeUID, func() error { return c.uid }}}
			api := New(opts)
			if c.drain {
				api.Drain()
			}
			if !c.young {
				api.startedAt = api.startedAt.Add(-startPatience)
			}
			wantHealth(t, api, "/readyz", c.readyz)
			wantHealth(t, api, "/readyz/uid", c.readyzOfUID)
			wantHealth(t, api, "/healthz", c.healthz)
			wantAnswer(t, ask(api, "GET", "/livez"), 200, "{\"status\":\"ok\"}\n")
			wantHealth(t, api, "/readyz/segment", `404 {"code":-9,`)
			wantHealth(t, api, "/readyz/sequence", `404 {"code":-9,`)
			wantHealth(t, api, "/readyz/nothing", `404 {"code":-10,`)
		})
	}
}

// A replica that has just started waits for all of its modes once, and not for long.
func TestReadinessAtTheStart(t *testing.T) {
	uid := model.ErrNoLease
	api := newAPIOf(func(o *Options) { o.Modes[3].Ready = func() error { return uid } })
	now := api.startedAt
	api.now = func() time.Time { return now }
	wantHealth(t, api, "/readyz", `503 {"status":"not ready","message":"starting: uid: no worker ID is held",`)
	now = now.Add(startPatience)
	wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
	now = now.Add(-startPatience)
	uid = nil
	wantHealth(t, api, "/readyz", `200 {"status":"ok",`)
	uid = model.ErrNoLease
	wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)

	old := true // migrations were forgotten: the replica waits for them, unless it was complete before
	api = newAPIOf(func(o *Options) {
		o.Modes[3].Ready, o.OldSchema = func() error { return uid }, func() bool { return old }
	})
	api.now = func() time.Time { return now.Add(time.Hour) }
	wantHealth(t, api, "/readyz", `503 {"status":"not ready","message":"starting: uid: no worker ID is held",`)
	old = false
	wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
	uid = nil
	wantHealth(t, api, "/readyz", `200 {"status":"ok",`)
	old, uid = true, model.ErrNoLease
	wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
}

// A check says since when its mode is as it is.
func TestReadinessSince(t *testing.T) {
	var snowflake error
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	api := newAPIOf(func(o *Options) { o.Modes[2].Ready = func() error { return snowflake } })
	api.now = func() time.Time { return now }
	for _, step := range []struct {
		ready error
		want  string
	}{
		{nil, `{"name":"snowflake","ok":true,"since":"2026-01-01T00:00:00Z"},{"name":"uid","ok":true,`},
		{model.ErrNoLease, `{"name":"snowflake","ok":false,"since":"2026-01-01T01:00:00Z","error":"no worker ID is held"}`},
		{model.ErrClockBack, `{"name":"snowflake","ok":false,"since":"2026-01-01T01:00:00Z","error":"the clock went back"}`},
		{nil, `{"name":"snowflake","ok":true,"since":"2026-01-01T03:00:00Z"}`},
	} {
		snowflake = step.ready
		check.Has(t, ask(api, "GET", "/readyz").Body.String(), step.want)
		now = now.Add(time.Hour)
	}
}

// Whoever asks first learns when it changed, not when they asked.
func TestWatchKnowsWhenAModeChanged(t *testing.T) {
	var snowflake error
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	api := newAPIOf(func(o *Options) { o.Modes[2].Ready = func() error { return snowflake } })
	api.now = func() time.Time { return now }
	api.Watch()
	snowflake, now = model.ErrNoLease, now.Add(time.Second)
	api.Watch()
	now = now.Add(time.Hour)
	if got := ask(api, "GET", "/readyz").Body.String(); !strings.Contains(got, `{"name":"snowflake","ok":false,"since":"2026-01-01T00:00:01Z"`) {
		t.Error(got)
	}
}

func wantHealth(t *testing.T, api *API, path, want string) {
	t.Helper()
	got := ask(api, "GET", path)
	if line := fmt.Sprint(got.Code, " ", got.Body); !strings.HasPrefix(line, want) {
		t.Errorf("%s: %s, want %s", path, line, want)
	}
	check.Equal(t, got.Header().Get("Cache-Control"), "no-store", path, "Cache-Control")
}

// A replica that goes away says so with every answer, and no other does. It still serves.
func TestDrainClosesConnections(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for i, draining := range []bool{false, true} {
		wantAnswer(t, ask(api, "GET", alice), 200, []string{`{"code":0,"id":16385,"idStr":"16385"}`, `{"code":0,"id":49153,"idStr":"49153"}`}[i])
		for _, target := range []string{alice, "/readyz", "/nothing", "/get?" + strings.Repeat("x", maxURL)} {
			if got := ask(api, http.MethodGet, target).Header().Get("Connection") == "close"; got != draining {
				t.Errorf("%.20s: closes: %t, draining: %t", target, got, draining)
			}
		}
		api.Drain()
	}
}
