package monitor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// well is a replica on which nothing is to be looked at.
func well() Snapshot {
	return Snapshot{
		Conditions: []model.Condition{{Name: "database", OK: true}, {Name: "redis", OK: true},
			{Name: "refill", OK: true}},
		Settings: []model.Finding{{Store: "redis", Setting: "maxmemory-policy", Level: model.LevelOK},
			{Level: model.LevelUnknown}},
		Apps: []queue.View{{App: 1, Name: "orders", Left: 0.9,
			Limit: model.Limit{MaxID: 9, Policy: model.LimitReject}}, {App: 7, Name: "users", Left: 1}},
		Snowflake: &Snowflake{
			Worker: worker.Status{State: worker.StateServing, WorkerID: 3, Trust: time.Hour,
				ClockOffset: 2 * time.Second},
			MaxOffset: 5 * time.Second, Remaining: 2 * shortLife,
		},
		Segment: &segment.Stats{},
		UID: &UID{Status: uid.Status{WorkerID: 3, RingSize: 10, RingFill: 5, RunwaySeconds: 3600,
			RemainingSeconds: 1 << 40}},
	}
}

func fails(name string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Conditions = append(s.Conditions, model.Condition{Name: name, Error: "refused by 10.0.0.1"})
	}
}

func settings(levels ...model.Level) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, l := range levels {
			s.Settings = append(s.Settings, model.Finding{Store: "redis", Setting: "appendonly", Value: "no",
				Want: "yes", Level: l})
		}
	}
}

// rule is a change to a replica that is well and the alarm it raises, alone.
type rule struct {
	what     string
	change   func(*Snapshot)
	name     string // "" for none
	severity Severity
	says     string
}

func all() []rule {
	return []rule{
		{"all is well", func(*Snapshot) {}, "", "", ""},
		{"only the queue", func(s *Snapshot) { s.Segment, s.Snowflake, s.UID = nil, nil, nil }, "", "", ""},
		{"tripwire", func(s *Snapshot) { s.Queue.Repeated = 2 }, "ShardidRepeatedIndices", Critical, "gave 2 indices"},
		{"tripwire of segments", func(s *Snapshot) { s.Segment.Repeated = 1 }, "ShardidRepeatedSegments", Critical,
			"leaf_alloc"},
		{"lift", func(s *Snapshot) { s.Queue.Lifts = 1 }, "ShardidDatabaseWentBack", Warning, "went back in time"},
		{"lift of a tag", func(s *Snapshot) { s.Segment.Lifts = 1 }, "ShardidDatabaseWentBack", Warning,
			"went back in time"},
		{"far lift", func(s *Snapshot) { s.Queue.Lifts, s.Queue.FarLifts = 1, 1 }, "ShardidDatabaseWentBackFar",
			Critical, "queue.lift_alarm"},
		{"jump", func(s *Snapshot) { s.Queue.Jumps, s.Queue.Jumped = 1, 60_000 }, "ShardidIndicesLeftOut", Warning,
			"60000 indices"},
		{"jump of a tag", func(s *Snapshot) {
			s.Segment.Jumps, s.Segment.Jumped, s.Segment.MostJumped = 1, 66_927_002,
				"orders"
		}, "ShardidIndicesLeftOut", Warning, `66927002 IDs of tags were left out, the most of tag "orders"`},
		{"confirmation", func(s *Snapshot) { s.Apps[1].Unconfirmed = 64 }, "ShardidConfirmationNeeded", Critical,
			"app 7 (users)"},
		{"limit", func(s *Snapshot) { s.Apps[0].Exhausted, s.Apps[0].Left = 1, 0 }, "ShardidLimitReached", Critical,
			"app 1 (orders): callers"},
		{"near the limit", func(s *Snapshot) { s.Apps[0].Left = 0.099 }, "ShardidLimitNear", Warning,
			"app 1 (orders): less"},
		{"not yet near", func(s *Snapshot) { s.Apps[0].Left = 0.1 }, "", "", ""},
		{"wrap", func(s *Snapshot) { s.Apps[0].Policy, s.Apps[1].Policy = "wrap", "wrap" }, "ShardidWrapApp", Info,
			"apps 1 (orders), 7 (users)"},
		{"database", fails("database"), "ShardidStoreAway", Critical, "database: refused by 10.0.0.1"},
		{"redis", fails("redis"), "ShardidStoreAway", Critical, "redis"},
		{"zookeeper", fails("zookeeper"), "ShardidStoreAway", Critical, "zookeeper"},
		{"store and what follows", func(s *Snapshot) { fails("redis")(s); fails("pop")(s); fails("refill")(s) },
			"ShardidStoreAway", Critical, "redis"},
		{"refill", fails("refill"), "ShardidRefillFailing", Critical, "refill: refused"},
		{"load", fails("segment load"), "ShardidRefillFailing", Critical, "segment load"},
		{"something else", fails("uid mark"), "ShardidConditionFailing", Warning, "uid mark"},
		{"lists were emptied", func(s *Snapshot) { s.Apps[1].Emptied = true }, "ShardidConditionFailing", Warning,
			"every list in use of app 7 (users) is empty"},
		{"with the store away", func(s *Snapshot) { s.Apps[1].Emptied = true; fails("redis")(s) }, "ShardidStoreAway",
			Critical, "redis"},
		{"the lease's own condition", fails("snowflake worker ID"), "", "", ""},
		{"starved", func(s *Snapshot) { s.Queue.Starved = 1 }, "ShardidStarved", Critical, "-4"},
		{"starved of numbers", func(s *Snapshot) { s.Sequence = &Sequence{Starved: 1} }, "ShardidStarved", Critical,
			"-4"},
		{"starved of segments", func(s *Snapshot) { s.Segment.Starved = 1 }, "ShardidStarved", Critical, "-4"},
		{"none free", func(s *Snapshot) { s.NoneFree, s.NoneFreeOf = 3, "carts" }, "ShardidNoWorkerIDFree", Critical,
			`the name "carts" is leased`},
		{"fault", func(s *Snapshot) { s.RESP = map[int]int64{-11: 1} }, "ShardidInternalErrors", Warning, "-11"},
		{"no worker ID", func(s *Snapshot) { s.Snowflake.Worker = worker.Status{State: worker.StateWaiting} },
			"ShardidLeaseNotTrusted", Critical, "none has been acquired yet"},
		{"lease lost", func(s *Snapshot) {
			s.Snowflake.Worker = worker.Status{State: worker.StateWaiting, Error: "not renewed in time"}
		}, "ShardidLeaseNotTrusted", Critical, "not renewed in time"},
		{"offline", func(s *Snapshot) { s.Snowflake.Worker.State = worker.StateOffline }, "ShardidWorkerOffline",
			Warning, "1h0m0s more"},
		{"clock ahead", func(s *Snapshot) { s.Snowflake.Worker.ClockOffset = 2501 * time.Millisecond },
			"ShardidClockOffset", Warning, "2.501s"},
		{"clock behind", func(s *Snapshot) { s.Snowflake.Worker.ClockOffset = -4 * time.Second }, "ShardidClockOffset",
			Warning, "-4s"},
		{"end of snowflakes", func(s *Snapshot) { s.Snowflake.Remaining = 364 * 24 * time.Hour },
			"ShardidSnowflakeLifetime", Warning, "364 days"},
		{"end of UIDs", func(s *Snapshot) { s.UID.Status.RemainingSeconds = 86400 }, "ShardidUIDLifetime", Warning,
			"1 days"},
		{"runway", func(s *Snapshot) { s.UID.Status.RunwaySeconds = 299 }, "ShardidUIDRunway", Warning, "299 s"},
		{"no node yet", func(s *Snapshot) {
			s.UID.Status = uid.Status{WorkerID: -1, RingSize: 10,
				RemainingSeconds: 1 << 40}
		}, "", "", ""},
		{"ring not filled yet", func(s *Snapshot) { s.UID.Status.RingFill = 0 }, "", "", ""},
		{"ring empty", func(s *Snapshot) { s.UID.Stats.Issued, s.UID.Status.RingFill = 1, 0 }, "ShardidRingDry",
			Warning, "uid.boost_power"},
		{"ring was empty", func(s *Snapshot) { s.UID.Stats.Refused = 1 }, "ShardidRingDry", Warning, "uid.boost_power"},
		{"default mode", func(s *Snapshot) { s.UID.Status.RingSize, s.UID.Status.RingFill = 0, 0 }, "", "", ""},
		{"unsafe setting", settings(model.LevelUnsafe), "ShardidUnsafeSetting", Critical,
			"redis appendonly is no, wanted yes"},
		{"doubtful setting", settings(model.LevelWarn), "ShardidDoubtfulSetting", Info, "redis appendonly"},
		{"many settings", settings(slices.Repeat([]model.Level{model.LevelWarn}, 8)...), "ShardidDoubtfulSetting",
			Info, "and 3 more"},
	}
}

func TestRules(t *testing.T) {
	for _, r := range all() {
		s := well()
		r.change(&s)
		got := silent(nothing).raise(s, noon)
		switch {
		case r.name == "" && len(got) == 0:
		case r.name == "" || len(got) != 1:
			t.Errorf("%s: %+v", r.what, got)
		case got[0].Name != r.name || got[0].Severity != r.severity || !strings.Contains(got[0].Message, r.says) ||
			got[0].Since != noon:
			t.Errorf("%s: %+v, want %s, %s, %q", r.what, got[0], r.severity, r.name, r.says)
		}
	}
}

// The most severe come first, and each name once.
func TestAllAtOnce(t *testing.T) {
	s := well()
	for _, r := range all() {
		if r.what != "only the queue" && r.what != "no node yet" && r.what != "default mode" {
			r.change(&s)
		}
	}
	got := silent(nothing).raise(s, noon)
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

// Since is when an alarm came, until it goes; when it comes back it is anew, also after it was
// over. What happened once is told of for a quarter of an hour after the last time.
func TestSince(t *testing.T) {
	b, s := silent(nothing), well()
	look := func(minute int, want ...int) {
		t.Helper()
		got := b.raise(s, noon.Add(time.Duration(minute)*time.Minute))
		var since []int
		for _, a := range got {
			since = append(since, int(a.Since.Sub(noon).Minutes()))
		}
		if !slices.Equal(since, want) {
			t.Errorf("minute %d: %v, since minutes %v, want %v", minute, got, since, want)
		}
	}
	look(0)
	s.Snowflake.Worker.State = worker.StateOffline
	look(1, 1)
	look(2, 1)
	s.Queue.Lifts = 1
	look(3, 3, 1)
	s.Snowflake.Worker.State = worker.StateServing
	look(4, 3)
	s.Snowflake.Worker.State = worker.StateOffline
	look(5, 5, 3)
	s.Snowflake.Worker.State = worker.StateServing
	s.Queue.Lifts = 2
	look(10, 10)
	look(24, 10)
	look(25)
	s.Queue.Lifts = 3
	look(26, 26)
}

// What callers met is critical while it goes on, or while a store is away that may be why; else until a
// sample shows no more of it.
// Then it is told of as over, with its time, and is not critical any more.
func TestAlarmEndsWithItsCause(t *testing.T) {
	b, s := silent(nothing), well()
	starved := func(second int) Alarm {
		t.Helper()
		for _, a := range b.raise(s, noon.Add(time.Duration(second)*time.Second)) {
			if a.Name == "ShardidStarved" {
				return a
			}
		}
		t.Fatalf("second %d: it is not told of", second)
		return Alarm{}
	}
	on := func(second int) {
		t.Helper()
		if a := starved(second); a.Severity != Critical || a.Scraped != Critical || !a.Over.IsZero() ||
			a.Since != noon {
			t.Errorf("second %d: %+v", second, a)
		}
	}
	over := func(second, since, until int) {
		t.Helper()
		a, end := starved(second), noon.Add(time.Duration(until)*time.Second)
		if a.Severity != Info || a.Over != end || !strings.HasPrefix(a.Message,
			"over, was critical until "+end.Format(time.RFC3339)) ||
			a.Since != noon.Add(time.Duration(since)*time.Second) {
			t.Errorf("second %d: %+v", second, a)
		}
	}
	s.Queue.Starved = 1
	fails("redis")(&s)
	on(0)
	s.Queue.Starved = 2
	on(5)
	on(60) // the store is away: the next caller would meet it too
	s.Conditions = well().Conditions
	over(90, 0, 5)
	check.Equal(t, starved(90).Scraped, "", "a minute after the last caller, in /metrics")
	over(100, 0, 5)
	s.Queue.Starved = 3
	if a := starved(110); a.Severity != Critical || a.Since != noon.Add(110*time.Second) {
		t.Errorf("again: %+v", a)
	}
	over(115, 110, 110)
	check.Equal(t, starved(169).Scraped, Critical, "less than a minute after the last caller, in /metrics")
	check.Equal(t, len(b.raise(s, noon.Add(110*time.Second+recently))), 0, "later")
}

func TestEmptySnapshot(t *testing.T) {
	check.Equal(t, len(silent(nothing).Alarms()), 0)
}
