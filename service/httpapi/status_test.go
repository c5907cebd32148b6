package httpapi

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/model/witness"
	"shardid/scripts/check"
	"shardid/service/monitor"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
)

// fullState has every field, and an alarm.
func fullState() monitor.State {
	const lifetime = 1_000_000_000
	app := queue.View{App: 1, Name: "test", Step: 1000, Limit: model.Limit{MaxID: math.MaxInt64,
		Policy: model.LimitReject}, Issued: 5, Refills: 64, Held: 2, PerSecond: 0.5, Highest: 2000, Left: 0.25,
		Exhausted: 3, Unconfirmed: 4, Unused: []int{7}}
	app.Depths[0] = -1
	s := monitor.State{
		Settings: []model.Finding{{Store: "redis", Setting: "appendonly", Value: "no", Level: model.LevelUnsafe}},
		Tags:     func() segment.Status { return segment.Status{Issued: 8, Tags: heldOf(fakeViews()...).Used()} },
	}
	s.Status = monitor.Status{
		Version: "1.2.3", Region: model.Region{ID: 1, Bits: 2},
		Witness: &witness.Vouching{State: witness.Named, HeldSince: loaded},
		Queue:   queue.Status{Issued: 7, Held: 3, Apps: []queue.View{app}},
		Snowflake: &monitor.SnowflakeStatus{Issued: 9, WorkerID: 21, Mode: "mysql", Address: "10.0.0.5:8080",
			State: "serving", ReservedUntil: loaded, TrustSeconds: 7.5, ClockOffsetSeconds: -0.25,
			RemainingLifetimeSeconds: lifetime, Error: "away"},
		UID: &uid.Status{Issued: 10, Mode: "cached", WorkerID: 3, NodeID: 3, RingSize: 65536, RingFill: 40000,
			AheadSeconds: 7, LastSecond: loaded, MarkedUntil: loaded.Add(time.Hour),
			RemainingSeconds: lifetime},
	}
	return s
}

func fakeReplicas(context.Context) monitor.View {
	return monitor.View{Self: "a", Shared: true, Message: "redis: away", Replicas: []monitor.Record{{
		Instance: "a", Host: "h", URL: "http://10.0.0.5:8080/", Version: "1.2.3", StartedAt: loaded, Ready: true,
		Modes:    map[string]monitor.ModeRecord{"queue": {Enabled: true, Ready: true, IDsPerSecond: 0.5}},
		WorkerID: -1, Alarms: map[string]int{"critical": 1}, AgeSeconds: 2.5,
	}}}
}

const replicasJSON = `{"self":"a","shared":true,"message":"redis: away","replicas":[{"instance":"a","host":"h",` +
	`"url":"http://10.0.0.5:8080/","version":"1.2.3","startedAt":"2026-11-20T00:18:00Z","ready":true,` +
	`"modes":{"queue":{"enabled":true,"ready":true,"idsPerSecond":0.5}},"workerId":-1,"alarms":{"critical":1},` +
	`"ageSeconds":2.5}]}`

// healthExchanges are the statuses of the endpoints that take no parameters.
func healthExchanges() []exchange {
	failing := map[string]error{"segment": wrap(model.ErrNotReady)}
	away := watched(failing, allModes...)
	return []exchange{
		{target: "/openapi.yaml", status: 200},
		{target: "/livez", status: 200},
		{target: "/readyz", status: 200},
		{name: "no mode", target: "/readyz", change: watched(failing, "segment"), status: 503},
		{target: "/readyz/segment", status: 200},
		{name: "the mode is unreachable", target: "/readyz/segment", change: away, status: 503},
		{name: "another is", target: "/readyz/uid", change: away, status: 200},
		{name: "off", target: "/readyz/segment", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{target: "/readyz/nothing", status: 404, code: -10, says: "no such path"},
		{target: "/healthz", status: 200},
		{name: "a mode is unreachable", target: "/healthz", change: away, status: 503},
	}
}

// Readiness is that of any mode, and of one mode by its name; /healthz is of everything.
func TestReadiness(t *testing.T) {
	const (
		well     = `200 {"status":"ok",`
		degraded = `200 {"status":"degraded","message":"`
		sick     = `503 {"status":"degraded","message":"`
		notReady = `503 {"status":"not ready","message":"`
		away     = "read 10.0.0.1:1->10.0.0.2:2: connection reset (database)"
		starting = "next: not initialised yet"
	)
	database, lost, young := errAway, fmt.Errorf("%w: lost", model.ErrNoLease),
		wrap(model.ErrNotReady)
	for _, c := range []struct {
		name                         string
		database                     error
		queue, snowflake, uid        error
		drain, young                 bool
		readyz, readyzOfUID, healthz string // status, then what the body begins with
	}{
		{"all well", nil, nil, nil, nil, false, false, well, well, well},
		{"a store is unreachable, and every mode serves", database, nil, nil, nil, false, false, degraded + away,
			degraded,
			sick + away},
		{"the queue cannot serve", nil, young, nil, nil, false, false, degraded + starting + " (queue)", degraded,
			sick + starting + " (queue)"},
		{"one mode serves alone", database, young, lost, nil, false, false, degraded + away, degraded, sick + away},
		{"none serves", database, young, lost, lost, false, false, notReady + starting + " (queue): no mode can serve",
			notReady + "no worker ID is held: lost", sick + away},
		{"one mode cannot serve yet", nil, nil, lost, nil, false, true,
			notReady + "no worker ID is held: lost (snowflake): starting", degraded,
			sick + "no worker ID is held: lost (snowflake)"},
		{"draining", nil, nil, nil, nil, true, false, notReady + "shutting down", notReady + "shutting down", well},
		{"draining, and all else fails", database, lost, lost, lost, true, false, notReady + "shutting down",
			notReady + "shutting down", sick},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				opts, _ := testOptions(nil, io.Discard)
				opts.Segment, opts.Sequence = nil, nil
				watched(map[string]error{"database": c.database, "queue": c.queue, "snowflake": c.snowflake,
					"uid": c.uid}, "queue", "snowflake", "uid")(&opts)
				opts.Monitor.Draining.Store(c.drain)
				if !c.young {
					time.Sleep(startPatience)
				}
				api := New(opts)
				for path, want := range map[string]string{"/readyz": c.readyz, "/readyz/uid": c.readyzOfUID,
					"/healthz": c.healthz, "/livez": `200 {"status":"ok"}`, "/readyz/segment": `404 {"code":-9,`,
					"/readyz/sequence": `404 {"code":-9,`} {
					wantHealth(t, api, path, want)
				}
			})
		})
	}
}

// startPatience is how long a replica waits for all of its modes.
const startPatience = 5 * time.Second

// A replica that has just started waits for all of its modes once, and not for long.
func TestReadinessAtTheStart(t *testing.T) {
	const starting = `503 {"status":"not ready","message":"no worker ID is held (uid): starting",`
	synctest.Test(t, func(t *testing.T) {
		failing := map[string]error{"uid": model.ErrNoLease}
		api := newAPIOf(watched(failing, allModes...))
		wantHealth(t, api, "/readyz", starting)
		time.Sleep(startPatience)
		wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
		api = newAPIOf(watched(failing, allModes...))
		delete(failing, "uid")
		wantHealth(t, api, "/readyz", `200 {"status":"ok",`)
		failing["uid"] = model.ErrNoLease
		wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)

		old := true // migrations were forgotten: the replica waits for them, unless it was complete before
		api = newAPIOf(func(o *Options) {
			o.Monitor = newMonitor(func() monitor.State { return monitor.State{OldSchema: old} }, failing, allModes...)
		})
		time.Sleep(time.Hour)
		wantHealth(t, api, "/readyz", starting)
		old = false
		wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
		delete(failing, "uid")
		wantHealth(t, api, "/readyz", `200 {"status":"ok",`)
		old, failing["uid"] = true, model.ErrNoLease
		wantHealth(t, api, "/readyz", `200 {"status":"degraded",`)
	})
}

// A check says since when its mode is as it is: whoever asks first learns when it changed, not when they asked.
func TestReadinessSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var snowflake atomic.Pointer[error]
		snowflake.Store(new(error))
		api := newAPIOf(watched(nil))
		api.opts.Monitor.AddMode("snowflake", func() error { return *snowflake.Load() })
		api.opts.Monitor.Start()
		defer func() { check.OK(t, api.opts.Monitor.Stop(t.Context())) }()
		for _, step := range []struct {
			ready error
			want  string
		}{
			{nil, `{"name":"snowflake","ok":true,"since":"2000-01-01T00:00:00Z"}`},
			{model.ErrNoLease,
				`{"name":"snowflake","ok":false,"since":"2000-01-01T01:00:01Z","error":"no worker ID is held"}`},
			{model.ErrClockBack,
				`{"name":"snowflake","ok":false,"since":"2000-01-01T01:00:01Z","error":"the clock went back"}`},
		} {
			synctest.Wait()
			snowflake.Store(&step.ready)
			time.Sleep(time.Minute)
			check.Has(t, ask(api, "GET", "/readyz").Body.String(), step.want)
			time.Sleep(time.Hour - time.Minute)
		}
	})
}

func fakeHistory(further ...string) monitor.Chart {
	c := monitor.Chart{PeriodSeconds: 5, Times: []int64{60}, Series: map[string]monitor.Points{},
		Message: "redis: away"}
	for _, name := range further {
		c.Series[name] = monitor.Points{0.5}
	}
	return c
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
	api := newAPI()
	for i, draining := range []bool{false, true} {
		wantAnswer(t, ask(api, "GET", alice), 200,
			[]string{`{"code":0,"id":16385,"idStr":"16385"}`, `{"code":0,"id":49153,"idStr":"49153"}`}[i])
		for _, target := range []string{alice, "/readyz", "/nothing", "/get?" + strings.Repeat("x", maxURL)} {
			if got := ask(api, http.MethodGet, target).Header().Get("Connection") == "close"; got != draining {
				t.Errorf("%.20s: closes: %t, draining: %t", target, got, draining)
			}
		}
		api.opts.Monitor.Draining.Store(true)
	}
}
