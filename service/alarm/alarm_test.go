package alarm

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/health"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// well is a replica on which nothing is to be looked at.
func well() Facts {
	return Facts{
		Conditions: []health.Condition{{Name: "database", OK: true}, {Name: "redis", OK: true}, {Name: "refill", OK: true}},
		Settings:   []model.Finding{{Store: "redis", Setting: "maxmemory-policy", Level: model.LevelOK}, {Level: model.LevelUnknown}},
		Apps:       []queue.View{{App: 1, Name: "orders", Left: 0.9, Limit: model.Limit{MaxID: 9, Policy: model.LimitReject}}, {App: 7, Name: "users", Left: 1}},
		Snowflake: &Snowflake{
			Worker:    worker.Status{State: worker.StateServing, WorkerID: 3, Trust: time.Hour, ClockOffset: 2 * time.Second},
			MaxOffset: 5 * time.Second, Remaining: 2 * shortLife,
		},
		UID: &uid.Status{WorkerID: 3, RingSize: 10, RingFill: 5, LastSecond: 1, RunwaySeconds: 3600, RemainingSeconds: 1 << 40},
	}
}

func fails(name string) func(*Facts) {
	return func(f *Facts) {
		f.Conditions = append(f.Conditions, health.Condition{Name: name, Error: errors.New("refused by 10.0.0.1").Error()})
	}
}

func settings(levels ...model.Level) func(*Facts) {
	return func(f *Facts) {
		for _, l := range levels {
			f.Settings = append(f.Settings, model.Finding{Store: "redis", Setting: "appendonly", Value: "no", Want: "yes", Level: l})
		}
	}
}

// rule is a change to a replica that is well and the alarm it raises, alone.
type rule struct {
	what     string
	change   func(*Facts)
	name     string // "" for none
	severity Severity
	says     string
}

func all() []rule {
	return []rule{
		{"all is well", func(*Facts) {}, "", "", ""},
		{"only the queue", func(f *Facts) { f.Snowflake, f.UID = nil, nil }, "", "", ""},
		{"tripwire", func(f *Facts) { f.Queue.Repeated = 2 }, "ShardidRepeatedIndices", Critical, "gave 2 indices"},
		{"tripwire of segments", func(f *Facts) { f.Segment.Repeated = 1 }, "ShardidRepeatedSegments", Critical, "leaf_alloc"},
		{"lift", func(f *Facts) { f.Queue.Lifts = 1 }, "ShardidDatabaseWentBack", Warning, "went back in time"},
		{"lift of a tag", func(f *Facts) { f.Segment.Lifts = 1 }, "ShardidDatabaseWentBack", Warning, "went back in time"},
		{"far lift", func(f *Facts) { f.Queue.Lifts, f.Queue.LiftAlarms = 1, 1 }, "ShardidDatabaseWentBackFar", Critical, "queue.lift_alarm"},
		{"jump", func(f *Facts) { f.Queue.Jumps, f.Queue.Jumped = 1, 60_000 }, "ShardidIndicesLeftOut", Warning, "60000 indices"},
		{"confirmation", func(f *Facts) { f.Apps[1].Unconfirmed = 64 }, "ShardidConfirmationNeeded", Critical, "app 7 (users)"},
		{"limit", func(f *Facts) { f.Apps[0].Exhausted, f.Apps[0].Left = 1, 0 }, "ShardidLimitReached", Critical, "app 1 (orders): callers"},
		{"near the limit", func(f *Facts) { f.Apps[0].Left = 0.099 }, "ShardidLimitNear", Warning, "app 1 (orders): less"},
		{"not yet near", func(f *Facts) { f.Apps[0].Left = 0.1 }, "", "", ""},
		{"wrap", func(f *Facts) { f.Apps[0].Policy, f.Apps[1].Policy = "wrap", "wrap" }, "ShardidWrapApp", Info, "apps 1 (orders), 7 (users)"},
		{"database", fails("database"), "ShardidStoreAway", Critical, "database: refused by 10.0.0.1"},
		{"redis", fails("redis"), "ShardidStoreAway", Critical, "redis"},
		{"zookeeper", fails("zookeeper"), "ShardidStoreAway", Critical, "zookeeper"},
		{"store and what follows", func(f *Facts) { fails("redis")(f); fails("pop")(f); fails("refill")(f) }, "ShardidStoreAway", Critical, "redis"},
		{"refill", fails("refill"), "ShardidRefillFailing", Critical, "refill: refused"},
		{"load", fails("segment load"), "ShardidRefillFailing", Critical, "segment load"},
		{"something else", fails("uid mark"), "ShardidConditionFailing", Warning, "uid mark"},
		{"the lease's own condition", fails("snowflake worker ID"), "", "", ""},
		{"starved", func(f *Facts) { f.Queue.Starved = 1 }, "ShardidStarved", Critical, "-4"},
		{"starved of segments", func(f *Facts) { f.Segment.Starved = 1 }, "ShardidStarved", Critical, "-4"},
		{"fault", func(f *Facts) { f.Faults = 1 }, "ShardidInternalErrors", Warning, "-11"},
		{"no worker ID", func(f *Facts) { f.Snowflake.Worker = worker.Status{State: worker.StateWaiting} }, "ShardidLeaseNotTrusted", Critical, "none has been acquired yet"},
		{"lease lost", func(f *Facts) {
			f.Snowflake.Worker = worker.Status{State: worker.StateWaiting, Error: "not renewed in time"}
		}, "ShardidLeaseNotTrusted", Critical, "not renewed in time"},
		{"offline", func(f *Facts) { f.Snowflake.Worker.State = worker.StateOffline }, "ShardidWorkerOffline", Warning, "1h0m0s more"},
		{"clock ahead", func(f *Facts) { f.Snowflake.Worker.ClockOffset = 2501 * time.Millisecond }, "ShardidClockOffset", Warning, "2.501s"},
		{"clock behind", func(f *Facts) { f.Snowflake.Worker.ClockOffset = -4 * time.Second }, "ShardidClockOffset", Warning, "-4s"},
		{"end of snowflakes", func(f *Facts) { f.Snowflake.Remaining = 364 * 24 * time.Hour }, "ShardidSnowflakeLifetime", Warning, "364 days"},
		{"end of UIDs", func(f *Facts) { f.UID.RemainingSeconds = 86400 }, "ShardidUIDLifetime", Warning, "1 days"},
		{"runway", func(f *Facts) { f.UID.RunwaySeconds = 599 }, "ShardidUIDRunway", Warning, "599 s"},
		{"no node yet", func(f *Facts) { f.UID = &uid.Status{WorkerID: -1, RingSize: 10, RemainingSeconds: 1 << 40} }, "", "", ""},
		{"ring empty", func(f *Facts) { f.UID.RingFill = 0 }, "ShardidRingDry", Warning, "uid.boost_power"},
		{"ring was empty", func(f *Facts) { f.RingEmpty = 1 }, "ShardidRingDry", Warning, "uid.boost_power"},
		{"default mode", func(f *Facts) { f.UID.RingSize, f.UID.RingFill = 0, 0 }, "", "", ""},
		{"history is hidden", func(f *Facts) { f.UnsafeNoHistory = true }, "ShardidUnsafeNoHistory", Warning, "redis.unsafe_no_history"},
		{"unsafe setting", settings(model.LevelUnsafe), "ShardidUnsafeSetting", Critical, "redis appendonly is no, wanted yes"},
		{"doubtful setting", settings(model.LevelWarn), "ShardidDoubtfulSetting", Info, "redis appendonly"},
		{"many settings", settings(slices.Repeat([]model.Level{model.LevelWarn}, 8)...), "ShardidDoubtfulSetting", Info, "and 3 more"},
	}
}

func TestRules(t *testing.T) {
	for _, r := range all() {
		f := well()
		r.change(&f)
		got := (&Board{}).Look(noon, f)
		switch {
		case r.name == "" && len(got) == 0:
		case r.name == "" || len(got) != 1:
			t.Errorf("%s: %+v", r.what, got)
		case got[0].Name != r.name || got[0].Severity != r.severity || !strings.Contains(got[0].Message, r.says) || got[0].Since != noon:
			t.Errorf("%s: %+v, want %s, %s, %q", r.what, got[0], r.severity, r.name, r.says)
		}
	}
}

// The most severe come first, and each name once.
func TestAllAtOnce(t *testing.T) {
	f := well()
	for _, r := range all() {
		if r.what != "only the queue" && r.what != "no node yet" && r.what != "default mode" {
			r.change(&f)
		}
	}
	got := (&Board{}).Look(noon, f)
	order := map[Severity]int{Critical: 0, Warning: 1, Info: 2}
	seen := map[string]bool{}
	for i, a := range got {
		if i > 0 && order[got[i-1].Severity] > order[a.Severity] {
			t.Errorf("%s comes after %s", a.Name, got[i-1].Name)
		}
		if seen[a.Name] {
			t.Errorf("%s came twice", a.Name)
		}
		seen[a.Name] = true
	}
	if len(got) < 15 {
		t.Errorf("%d alarms", len(got))
	}
}

// Since is when an alarm came, until it goes; when it comes back it is anew. What
// happened once is an alarm for a quarter of an hour after the last time.
func TestSince(t *testing.T) {
	var b Board
	f := well()
	look := func(minute int, want ...int) {
		t.Helper()
		got := b.Look(noon.Add(time.Duration(minute)*time.Minute), f)
		var since []int
		for _, a := range got {
			since = append(since, int(a.Since.Sub(noon).Minutes()))
		}
		if !slices.Equal(since, want) {
			t.Errorf("minute %d: %v, since minutes %v, want %v", minute, got, since, want)
		}
	}
	look(0)
	f.Snowflake.Worker.State = worker.StateOffline
	look(1, 1)
	look(2, 1)
	f.Queue.Lifts = 1
	look(3, 3, 1)
	f.Snowflake.Worker.State = worker.StateServing
	look(4, 3)
	f.Snowflake.Worker.State = worker.StateOffline
	look(5, 3, 5)
	f.Snowflake.Worker.State = worker.StateServing
	f.Queue.Lifts = 2
	look(10, 3)
	look(24, 3)
	look(25)
	f.Queue.Lifts = 3
	look(26, 26)
}

func TestZeroFacts(t *testing.T) {
	if got := (&Board{}).Look(noon, Facts{Segment: segment.Stats{}}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
