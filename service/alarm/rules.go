package alarm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/worker"
)

const (
	// nearLimit is the share of an app's indices below which what is left is near its
	// end.
	nearLimit = 0.1
	// shortLife is when to plan another layout.
	shortLife = 365 * 24 * time.Hour
	// shortRunway is how long UIDs may last without the database before that is an
	// alarm: usually it is an hour or two.
	shortRunway = 10 * time.Minute
	// listed is how many apps or settings a message names.
	listed = 5
)

// raise is the rules: alarms from facts, the most severe first.
func raise(f Facts, e events) []Alarm {
	r := &rules{}
	r.repeats(f)
	r.wentBack(f, e)
	r.limits(f.Apps)
	r.stores(f)
	r.requests(e)
	r.snowflake(f.Snowflake)
	r.uid(f, e)
	r.settings(f)
	order := map[Severity]int{Critical: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(r.raised, func(a, b Alarm) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	return r.raised
}

// rules collects what they raise.
type rules struct{ raised []Alarm }

// when raises an alarm if it is on.
func (r *rules) when(on bool, severity Severity, name, format string, args ...any) {
	if on {
		r.raised = append(r.raised, Alarm{Name: name, Severity: severity, Message: fmt.Sprintf(format, args...)})
	}
}

// repeats are the tripwires.
func (r *rules) repeats(f Facts) {
	r.when(f.Queue.Repeated > 0, Critical, "ShardidRepeatedIndices",
		"a list gave %d indices for the second time, and this replica refused them: somebody else writes to the lists; find it before anything else", f.Queue.Repeated)
	r.when(f.Segment.Repeated > 0, Critical, "ShardidRepeatedSegments",
		"leaf_alloc gave %d segments for the second time, and this replica refused them: find the second writer of the table", f.Segment.Repeated)
}

func (r *rules) wentBack(f Facts, e events) {
	r.when(e.farLifts, Critical, "ShardidDatabaseWentBackFar",
		"the database went back in time by more than queue.lift_alarm: max_id was lifted (%d times by so much); find out what restored it and what else it lost", f.Queue.LiftAlarms)
	r.when(e.lifts && !e.farLifts, Warning, "ShardidDatabaseWentBack",
		"max_id was below what had been handed out and was lifted: the database went back in time; no ID repeats, find out what restored it")
	r.when(e.jumps, Warning, "ShardidIndicesLeftOut",
		"the database and Redis both changed and %d indices were left out to be safe: find out what changed them", f.Queue.Jumped)
	waiting := appsWhere(f.Apps, func(v queue.View) bool { return v.Unconfirmed > 0 })
	r.when(len(waiting) > 0, Critical, "ShardidConfirmationNeeded",
		"%s: lists wait for an operator, as max_id may have gone back: check it against the IDs in use, then run %s", names(waiting), confirmations(f.Apps))
}

// confirmations are the commands that end the waiting of apps.
func confirmations(apps []queue.View) string {
	var commands []string
	for _, v := range apps {
		if v.Unconfirmed > 0 {
			commands = append(commands, fmt.Sprintf("`shardid confirm --app %d --name %q`", v.App, v.Name))
		}
	}
	return some(commands)
}

func (r *rules) limits(apps []queue.View) {
	full := appsWhere(apps, func(v queue.View) bool { return v.Exhausted > 0 })
	r.when(len(full) > 0, Critical, "ShardidLimitReached",
		"%s: callers of some shards get -5: raise max_limit_id or provision another app", names(full))
	near := appsWhere(apps, func(v queue.View) bool { return v.Exhausted == 0 && v.Left < nearLimit })
	r.when(len(near) > 0, Warning, "ShardidLimitNear",
		"%s: less than a tenth of the indices of a shard is left: raise max_limit_id or provision another app in time", names(near))
	wrap := appsWhere(apps, func(v queue.View) bool { return v.Policy == model.LimitWrap })
	r.when(len(wrap) > 0, Info, "ShardidWrapApp",
		"%s: the wrap policy repeats IDs once they pass the limit: use reject unless that is wanted", names(wrap))
}

// stores tells of conditions that fail. What only waits for a store that is away has
// no alarm of its own.
func (r *rules) stores(f Facts) {
	failing := map[string][]string{} // by kind
	for _, c := range f.Conditions {
		if !c.OK {
			failing[kind(c.Name)] = append(failing[kind(c.Name)], c.Name+": "+c.Error)
		}
	}
	away := failing[kindStore]
	r.when(len(away) > 0, Critical, "ShardidStoreAway",
		"a store cannot be used; IDs last as long as what is held: bring it back (%s)", strings.Join(away, "; "))
	refill, other := failing[kindRefill], failing[kindOther]
	r.when(len(refill) > 0 && len(away) == 0, Critical, "ShardidRefillFailing",
		"no new indices or segments can be had; IDs last as long as what is held: %s", strings.Join(refill, "; "))
	r.when(len(other) > 0 && len(away) == 0, Warning, "ShardidConditionFailing",
		"something that is tried again and again fails: %s", strings.Join(other, "; "))
}

// Kinds of conditions.
const (
	kindStore  = "store"
	kindRefill = "refill"
	kindLease  = "lease" // the state of the lease says more
	kindOther  = "other"
)

func kind(condition string) string {
	switch condition {
	case "database", "redis", "zookeeper":
		return kindStore
	case queue.ConditionRefill, segment.ConditionLoad:
		return kindRefill
	case worker.Condition:
		return kindLease
	}
	return kindOther
}

func (r *rules) requests(e events) {
	r.when(e.starved, Critical, "ShardidStarved",
		"in the last two minutes callers got -4, as no index or segment could be had in time: look at the stores and at how long refills take")
	r.when(e.faults, Warning, "ShardidInternalErrors",
		"in the last 15 minutes callers got -11, a fault of shardid: the log has it; please report it")
}

func (r *rules) snowflake(s *Snowflake) {
	if s == nil {
		return
	}
	w := s.Worker
	r.when(w.State == worker.StateWaiting, Critical, "ShardidLeaseNotTrusted",
		"snowflake issues nothing, as no worker ID is held or trusted: %s", cmp.Or(w.Error, "none has been acquired yet"))
	r.when(w.State == worker.StateOffline, Warning, "ShardidWorkerOffline",
		"the registry of worker IDs is away and the local file reserves time for %s more: bring it back (%s)", w.Trust.Round(time.Second), w.Error)
	r.when(w.ClockOffset.Abs() > s.MaxOffset/2, Warning, "ShardidClockOffset",
		"this clock is %s from the registry's, at most %s are allowed: set the clocks (NTP)", w.ClockOffset.Round(time.Millisecond), s.MaxOffset)
	r.when(s.Remaining < shortLife, Warning, "ShardidSnowflakeLifetime",
		"the 41 bits of time of snowflakes end in %d days: plan a later epoch on another database", days(s.Remaining))
}

func (r *rules) uid(f Facts, e events) {
	s := f.UID
	if s == nil {
		return
	}
	r.when(e.ringEmpty || s.LastSecond > 0 && s.RingSize > 0 && s.RingFill == 0, Warning, "ShardidRingDry",
		"the ring of UIDs ran dry: more are asked for than are filled, or it cannot be filled; look at uid.boost_power and uid.padding_factor")
	r.when(s.WorkerID >= 0 && s.RunwaySeconds < int64(shortRunway.Seconds()), Warning, "ShardidUIDRunway",
		"UIDs end in %d s unless the mark in WORKER_NODE is raised: look at the database", s.RunwaySeconds)
	left := time.Duration(min(s.RemainingSeconds, int64(shortLife.Seconds()))) * time.Second
	r.when(left < shortLife, Warning, "ShardidUIDLifetime",
		"the time bits of UIDs end in %d days: plan a layout with more of them, or a later epoch, on another database", days(left))
}

func (r *rules) settings(f Facts) {
	r.when(f.UnsafeNoHistory, Warning, "ShardidUnsafeNoHistory",
		"redis.unsafe_no_history is set: a Redis that goes back in time is not noticed, and IDs can repeat; connect to a Redis that tells its replication ID")
	unsafe := settingsOf(f.Settings, model.LevelUnsafe)
	r.when(len(unsafe) > 0, Critical, "ShardidUnsafeSetting", "settings of the stores are unsafe, see `shardid doctor`: %s", some(unsafe))
	doubtful := settingsOf(f.Settings, model.LevelWarn)
	r.when(len(doubtful) > 0, Info, "ShardidDoubtfulSetting", "settings of the stores could be better, see `shardid doctor`: %s", some(doubtful))
}

func settingsOf(found []model.Finding, level model.Level) (out []string) {
	for _, f := range found {
		if f.Level == level {
			out = append(out, fmt.Sprintf("%s %s is %s, wanted %s", f.Store, f.Setting, f.Value, f.Want))
		}
	}
	return out
}

func appsWhere(apps []queue.View, is func(queue.View) bool) (out []string) {
	for _, v := range apps {
		if is(v) {
			out = append(out, fmt.Sprintf("%d (%s)", v.App, v.Name))
		}
	}
	return out
}

// names is "app 1 (orders)" or "apps 1 (orders), 7 (users)".
func names(apps []string) string {
	if len(apps) == 1 {
		return "app " + apps[0]
	}
	return "apps " + some(apps)
}

// some is the first of a list, and how many more there are.
func some(all []string) string {
	if len(all) <= listed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:listed], ", "), len(all)-listed)
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }
