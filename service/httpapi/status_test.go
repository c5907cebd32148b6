package httpapi

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/alarm"
	"shardid/service/fleet"
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
		Alarms:  []alarm.Alarm{{Name: "ShardidStarved", Severity: alarm.Critical, Message: "callers got -4", Since: loaded}},
		Queue:   &queue.Status{Issued: 7, Pops: 6, Refills: 65, Held: 3, Wasted: map[string]int64{"purged": 9}, Apps: []queue.View{app}},
		Segment: &segment.Status{Issued: 8, Tags: fakeViews()},
		Snowflake: &SnowflakeStatus{
			Issued: 9, WorkerID: 21, Mode: "mysql", Address: "10.0.0.5:8080", State: "serving", ReservedUntil: loaded,
			TrustSeconds: 7.5, ClockOffsetSeconds: -0.25, RemainingLifetimeSeconds: 1_000_000_000, Error: "away",
		},
		UID: &uid.Status{
			Issued: 10, Mode: "cached", WorkerID: 3, NodeID: 3, RingSize: 65536, RingFill: 40000, Discarded: 1,
			LastSecond: uid.Second(loaded.Unix()), AheadSeconds: 7, MarkSecond: uid.Second(loaded.Unix() + 3600), RemainingSeconds: 1_000_000_000,
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
		`"alarms":[{"name":"ShardidStarved","severity":"critical","message":"callers got -4","since":"2026-11-20T00:18:00Z"}],`,
		`{"issued":7,"pops":6,"refills":65,"held":3,"wasted":{"purged":9},"apps":[{"appId":1,"name":"test","step":1000,"maxLimitId":9223372036854775807,"limitPolicy":"reject",`,
		`"issued":5,"refills":64,"held":2,"issuedPerSecond":0.5,"highestIndex":2000,"leftShare":0.25,"exhausted":3,"unconfirmed":4,"unused":[7,63],"depths":[-1,0,1,`,
		`62],"maxLimitIdStr":"9223372036854775807"}]`,
		`"value0":9007199254740993,`, `"value0Str":"9007199254740993","max0Str":"9007199254741993",`,
		`"workerId":21,"mode":"mysql","address":"10.0.0.5:8080","state":"serving","reservedUntil":"2026-11-20T00:18:00Z","trustSeconds":7.5,`,
		`"ringSize":65536,"ringFilled":40000,"discarded":1,"lastSecond":"2026-11-20T00:18:00Z","aheadSeconds":7,"markedUntil":"2026-11-20T01:18:00Z"`,
	} {
		if got.Code != 200 || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%d %s\nhas no %s", got.Code, got.Body, want)
		}
	}
	if got.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("it may be cached: %v", got.Header())
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
		if err := json.Unmarshal(ask(api, http.MethodGet, "/api/status").Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if s.Ready != ready || len(s.Modes) != 4 || len(s.Stores) != 2 || s.Segment != nil || s.Alarms == nil {
			t.Errorf("%+v, want ready %t", s, ready)
		}
	}
}

// A status that cannot be shown is an error, not an empty answer; one that hangs
// is told to stop.
func TestStatusThatCannotBeShown(t *testing.T) {
	api := newAPIOf(func(o *Options) {
		o.Status = func(ctx context.Context) Status {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > readTimeout {
				t.Errorf("no deadline, or a late one: %v", at)
			}
			return Status{Segment: &segment.Status{Tags: []segment.View{{Runway: math.Inf(1)}}}}
		}
	})
	wantAnswer(t, ask(api, http.MethodGet, "/api/status"), 500, `{"code":-11,"message":"internal error: it has been logged, try again"}`)
}

func fakeReplicas(context.Context) fleet.View {
	return fleet.View{Self: "a", Shared: true, Message: "redis: away", Replicas: []fleet.Record{{
		Instance: "a", Host: "h", URL: "http://10.0.0.5:8080/", Version: "1.2.3", StartedAt: loaded, Ready: true,
		Modes:    map[string]fleet.Mode{ModeQueue: {Enabled: true, Ready: true, IDsPerSecond: 0.5}},
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
