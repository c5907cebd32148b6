package monitor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/queue"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// watched is what a monitor sees of a replica, at a time that stands still.
type watched struct {
	*Monitor
	counters counters
	seen     State
	at       time.Time
}

// well is a replica on which nothing is to be looked at.
func well() *watched {
	r := &watched{at: noon}
	r.counters.values = map[string]float64{
		"shardid_uid_worker_id": 3, "shardid_uid_ring_size": 10, "shardid_uid_ring_fill": 5,
		"shardid_uid_runway_seconds": 3600, "shardid_uid_lifetime_seconds": 1 << 40,
		"shardid_snowflake_lifetime_seconds": 1 << 40,
	}
	r.seen = State{
		Settings: []model.Finding{{Store: "redis", Setting: "maxmemory-policy", Level: model.LevelOK},
			{Level: model.LevelUnknown}},
		Status: Status{Queue: queue.Status{Apps: []queue.View{{App: 1, Name: "orders", Left: 0.9,
			Limit: model.Limit{MaxID: 9, Policy: model.LimitReject}}, {App: 7, Name: "users", Left: 1}}}},
		Worker:    worker.Status{State: worker.StateServing, Trust: time.Hour, ClockOffset: 2 * time.Second},
		MaxOffset: 5 * time.Second,
	}
	r.Monitor = silent(func() State { return r.seen })
	r.metrics, r.now = &r.counters, func() time.Time { return r.at }
	for _, name := range []string{"database", "redis", "refill"} {
		r.Report(name, nil)
	}
	return r
}

func counts(values map[string]float64) func(*watched) {
	return func(r *watched) {
		for name, value := range values {
			r.counters.values[name] = value
		}
	}
}

func rose(name string) func(*watched) { return counts(map[string]float64{name: 1}) }

func fails(names ...string) func(*watched) {
	return func(r *watched) {
		for _, name := range names {
			r.Report(name, errors.New("refused by 10.0.0.1"))
		}
	}
}

func app(change func(*queue.View)) func(*watched) {
	return func(r *watched) { change(&r.seen.Queue.Apps[1]) }
}

func leased(change func(*worker.Status)) func(*watched) {
	return func(r *watched) { change(&r.seen.Worker) }
}

func settings(levels ...model.Level) func(*watched) {
	return func(r *watched) {
		for _, l := range levels {
			r.seen.Settings = append(r.seen.Settings, model.Finding{Store: "redis", Setting: "appendonly",
				Value: "no", Want: "yes", Level: l})
		}
	}
}

// Each change of a replica that is well raises its alarm, alone.
func TestRows(t *testing.T) {
	const none = ""
	raised := map[string]bool{}
	for what, c := range map[string]struct {
		change   func(*watched)
		name     string
		severity Severity
		says     string
	}{
		"all is well":    {func(*watched) {}, none, "", ""},
		"only the queue": {func(r *watched) { r.counters.values, r.seen.Worker = nil, worker.Status{} }, none, "", ""},

		"tripwire": {counts(map[string]float64{"shardid_queue_repeated_indices_total": 2}),
			"ShardidRepeatedIndices", Critical, "gave 2 indices"},
		"tripwire of tags": {rose("shardid_segment_repeated_total"), "ShardidRepeatedIndices", Critical, "1 segments"},
		"lift of a tag":    {rose("shardid_segment_lifts_total"), "ShardidDatabaseWentBack", Warning, "went back"},
		"lift":             {rose("shardid_queue_lifts_total"), "ShardidDatabaseWentBack", Warning, "no ID repeats"},
		"far lift": {counts(map[string]float64{"shardid_queue_lifts_total": 1, "shardid_queue_lift_alarms_total": 1}),
			"ShardidDatabaseWentBack", Critical, "100000 indices"},
		"jump": {counts(map[string]float64{`shardid_queue_wasted_indices_total{reason="jumped"}`: 60_000}),
			"ShardidIndicesLeftOut", Warning, "60000 indices"},
		"jump of a tag": {counts(map[string]float64{"shardid_segment_jumped_ids_total": 66_927_002}),
			"ShardidIndicesLeftOut", Warning, "66927002 IDs of tags"},

		"confirmation": {app(func(v *queue.View) { v.Unconfirmed = 64 }), "ShardidConfirmationNeeded", Critical,
			"check max_id against the IDs in use, then run `shardid confirm --app 7 --name \"users\"`. Lists wait " +
				"for that, as max_id may have gone back: app 7 (users)"},
		"limit": {app(func(v *queue.View) { v.Exhausted, v.Left = 1, 0 }), "ShardidAppLimit", Critical,
			"get -5: app 7 (users)"},
		"near the limit": {app(func(v *queue.View) { v.Left = 0.099 }), "ShardidAppLimit", Warning,
			"is left: app 7 (users)"},
		"wrap": {func(r *watched) { r.seen.Queue.Apps[0].Policy, r.seen.Queue.Apps[1].Policy = "wrap", "wrap" },
			"ShardidSetting", Info, "apps 1 (orders), 7 (users)"},
		"unsafe setting": {settings(model.LevelUnsafe), "ShardidSetting", Critical,
			"redis appendonly is no, wanted yes"},
		"doubtful setting": {settings(model.LevelWarn), "ShardidSetting", Info, "redis appendonly"},

		"database": {fails("database"), "ShardidStoreAway", Critical, "refused by 10.0.0.1 (database)"},
		"redis":    {fails("redis"), "ShardidStoreAway", Critical, "redis"},
		"store and what follows": {func(r *watched) {
			fails("redis", "pop", "refill")(r)
		}, "ShardidStoreAway", Critical, "redis"},
		"refill":              {fails("refill"), "ShardidConditionFailing", Critical, "refused by 10.0.0.1 (refill)"},
		"load":                {fails("segment load", "pop"), "ShardidConditionFailing", Critical, "segment load"},
		"something else":      {fails("uid node"), "ShardidConditionFailing", Warning, "uid node"},
		"the lease's failure": {fails("snowflake worker ID"), none, "", ""},

		"starved":        {rose(`shardid_refused_total{code="-4"}`), "ShardidStarved", Critical, "-4"},
		"a fault":        {rose("shardid_faults_total"), "ShardidInternalErrors", Warning, "-11"},
		"ring was empty": {rose("shardid_uid_refused_total"), "ShardidStarved", Warning, "uid.boost_power"},
		"ring empty": {counts(map[string]float64{"shardid_uid_issued_total": 1, "shardid_uid_ring_fill": 0}),
			"ShardidStarved", Warning, "uid.boost_power"},

		"none free": {func(r *watched) { rose("shardid_leases_none_free_total")(r); r.seen.NoneFreeOf = "carts" },
			"ShardidWorkerID", Critical, `the name "carts" is leased`},
		"no worker ID of UIDs": {func(r *watched) {
			fails("uid node")(r)
			r.counters.values["shardid_uid_worker_id"] = -1
		}, "ShardidWorkerID", Critical, "refused by 10.0.0.1 (uid node)"},
		"no worker ID yet": {leased(func(s *worker.Status) { *s = worker.Status{State: worker.StateWaiting} }),
			"ShardidWorkerID", Critical, "none has been acquired yet"},
		"lease lost": {leased(func(s *worker.Status) {
			s.State, s.Err = worker.StateWaiting,
				errors.New("not renewed")
		}),
			"ShardidWorkerID", Critical, "not renewed"},
		"offline": {leased(func(s *worker.Status) { s.State = worker.StateOffline }), "ShardidWorkerID", Warning,
			"1h0m0s at the latest"},
		"runway": {counts(map[string]float64{"shardid_uid_runway_seconds": 299}), "ShardidWorkerID", Warning,
			"in 4m59s unless"},
		"clock ahead": {leased(func(s *worker.Status) { s.ClockOffset = 2501 * time.Millisecond }),
			"ShardidClockOffset",
			Warning, "2.501s"},
		"end of snowflakes": {counts(map[string]float64{"shardid_snowflake_lifetime_seconds": 364 * 86400}),
			"ShardidLifetime", Warning, "snowflakes: 364 d"},
		"ended": {counts(map[string]float64{"shardid_snowflake_lifetime_seconds": 0,
			"shardid_uid_lifetime_seconds": -1}),
			"ShardidLifetime", Critical, "no ID is issued, snowflakes: 0 d"},
		"end of UIDs": {counts(map[string]float64{"shardid_uid_lifetime_seconds": 86400}), "ShardidLifetime", Warning,
			"UIDs: 1 d"},
		"slow": {func(r *watched) {
			for range slowSamples/2 + 1 {
				r.history.add(slowSamples, noon, map[string]float64{"uid.p99Ms": slowAbove + 1})
			}
		}, "ShardidSlow", Warning, "in the mode uid"},
	} {
		raised[fmt.Sprint(c.severity, c.name)] = true
		t.Run(what, func(t *testing.T) {
			r := well()
			c.change(r)
			got := r.Alarms()
			switch {
			case c.name == none && len(got) == 0:
			case c.name == none || len(got) != 1:
				t.Errorf("%+v", got)
			case got[0].Name != c.name || got[0].Severity != c.severity || !strings.Contains(got[0].Message, c.says) ||
				strings.Contains(got[0].Message, "%!") || got[0].Since != noon:
				t.Errorf("%+v, want %s, %s, %q", got[0], c.severity, c.name, c.says)
			}
		})
	}
	for _, row := range rows() {
		if !raised[fmt.Sprint(row.severity, row.name)] {
			t.Errorf("nothing raises %s as %s", row.name, row.severity)
		}
	}
}

// Since is when an alarm came, until it goes; when it comes back it is anew. An event is told of for a while
// after the last time, whatever else is on. The most severe come first, and each name once, as
// severe as any of its rows.
func TestSince(t *testing.T) {
	r := well()
	look := func(second int, want ...string) {
		t.Helper()
		r.at = noon.Add(time.Duration(second) * time.Second)
		got := []string{}
		for _, a := range r.Alarms() {
			got = append(got, fmt.Sprintf("%s %s since %v", a.Severity, strings.TrimPrefix(a.Name, "Shardid"),
				a.Since.Sub(noon).Seconds()))
		}
		if !slices.Equal(got, append([]string{}, want...)) {
			t.Errorf("second %d: %q, want %q", second, got, want)
		}
	}
	look(0)
	r.seen.Worker.State = worker.StateOffline
	look(1, "warning WorkerID since 1")
	counts(map[string]float64{`shardid_refused_total{code="-4"}`: 1})(r)
	look(2, "critical Starved since 2", "warning WorkerID since 1")
	r.seen.Worker.State = worker.StateServing
	look(16, "critical Starved since 2")
	look(17)
	r.seen.Worker.State = worker.StateOffline
	counts(map[string]float64{`shardid_refused_total{code="-4"}`: 3, "shardid_queue_lifts_total": 1})(r)
	look(70, "critical Starved since 70", "warning DatabaseWentBack since 70", "warning WorkerID since 70")
	r.seen.Worker.State = worker.StateServing
	look(84, "critical Starved since 70", "warning DatabaseWentBack since 70")
	counts(map[string]float64{"shardid_queue_lifts_total": 2, "shardid_queue_lift_alarms_total": 1})(r)
	look(130, "critical DatabaseWentBack since 70")
	look(130+899, "critical DatabaseWentBack since 70")
	look(130 + 900)
}

// What is exported are the alarms as they were last seen, and the conditions.
func TestCollect(t *testing.T) {
	r := well()
	fails("redis")(r)
	r.Alarms()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.Monitor)
	values := check.Metrics(t, registry)
	for name, want := range map[string]float64{`shardid_alarm{name="ShardidStoreAway"}`: 1,
		`shardid_alarm{severity="critical"}`: 1, "shardid_alarm": 1, `shardid_condition_ok{name="redis"}`: 0,
		`shardid_condition_ok{name="database"}`: 1, "shardid_condition_ok": 2} {
		check.Equal(t, values[name], want, name)
	}
}
