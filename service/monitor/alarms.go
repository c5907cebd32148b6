package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/issuer"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/worker"
)

// Alarm is one thing that an operator should look at. docs/operations.md has a section for
// each name. /metrics exports the alarms as shardid_alarm, on which the rules of
// deploy/prometheus/alerts.yml fire.
type Alarm struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Message says what it means and what to do.
	Message string    `json:"message"`
	Since   time.Time `json:"since"` // when it was first seen
	// Over is when its cause was seen last. Such an alarm was on, is Info whatever it was, and
	// is told of for a while.
	Over time.Time `json:"over,omitzero"`
	// Scraped is the severity with which /metrics exports the alarm. What happened is exported
	// for a minute at least, also when it is over sooner. Empty: it is not exported any more.
	Scraped Severity `json:"-"`
}

// Severity is how soon an operator should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // IDs may repeat, or are not issued: now
	Warning  Severity = "warning"  // that may come: today
	Info     Severity = "info"     // it is as configured, and should be known
)

const (
	// recently is how long it is told of what has happened.
	recently = 15 * time.Minute
	// scraped is how long /metrics exports what has happened, so that scrapes see it.
	scraped = time.Minute
	// fresh is how long that is on: so many samples without another one, and it is over.
	fresh = 3 * historyEvery
	// lately is the same for callers that got no ID while something fails that may be why. While
	// nothing does, one sample without another such caller shows that the cause is gone.
	lately = 2 * time.Minute
	// nearLimit is the share of an app's indices below which what is left is near its
	// end.
	nearLimit = 0.1
	// shortLife is when to plan another layout.
	shortLife = 365 * 24 * time.Hour
	// shortRunway is how long UIDs may last without the database before that is an
	// alarm: usually it is an hour or two. Where less is kept, it is half of that.
	shortRunway = 5 * time.Minute
	// listed is how many apps or settings a message names.
	listed = 5
)

// Alarms takes a snapshot and returns its alarms, the most severe first.
func (m *Monitor) Alarms() []Alarm {
	_, alarms := m.Look()
	return alarms
}

// Look takes a snapshot and returns it with its alarms, the most severe first.
func (m *Monitor) Look() (Snapshot, []Alarm) {
	s := m.Snapshot()
	return s, m.raise(s, m.now())
}

// raise returns the alarms of a snapshot and notes since when they are on. Snapshots may
// come in any order.
func (m *Monitor) raise(s Snapshot, now time.Time) []Alarm {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := rules{now: now, rose: func(name string, value int64) time.Time { return m.rose(now, name, value) }}
	var tags segment.Stats
	if s.Segment != nil {
		tags = *s.Segment
	}
	r.indices(s.Queue, tags)
	r.apps(s.Apps)
	r.stores(s, tags)
	r.snowflake(s.Snowflake)
	r.uid(s.UID)
	r.settings(s)
	slow := m.slowModes()
	r.when(slow != nil, Warning, "ShardidSlow",
		"one in a hundred requests takes more than %d ms, in the mode %s: callers wait for refills or "+
			"loads, or the machine is short of CPU; look at the stores and at the CPU", slowAbove, strings.Join(slow, ", "))
	order := map[Severity]int{Critical: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(r.raised, func(a, b Alarm) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })

	told := make(map[string]Alarm, len(r.raised))
	for i := range r.raised {
		a := &r.raised[i]
		a.Since = now
		if before, was := m.told[a.Name]; was && (before.Over.IsZero() || !a.Over.IsZero()) {
			a.Since = before.Since
		}
		told[a.Name] = *a
	}
	m.told = told
	return r.raised
}

// rise is a counter and when it rose last.
type rise struct {
	value int64
	at    time.Time
}

// rose notes a counter, which was 0 at the start of the process, and says when it rose last,
// if that was recently; zero otherwise. Callers hold mu.
func (m *Monitor) rose(now time.Time, name string, value int64) time.Time {
	r := m.rises[name]
	if value > r.value {
		r = rise{value, now}
		m.rises[name] = r
	}
	if now.Sub(r.at) >= recently {
		return time.Time{}
	}
	return r.at
}

// rules collects the alarms.
type rules struct {
	now    time.Time
	rose   func(counter string, value int64) time.Time // see Monitor.rose
	raised []Alarm
}

// when raises an alarm if it is on.
func (r *rules) when(on bool, severity Severity, name, format string, args ...any) {
	if on {
		message := fmt.Sprintf(format, args...)
		r.raised = append(r.raised, Alarm{Name: name, Severity: severity, Message: message, Scraped: severity})
	}
}

// event raises an alarm about what happened at that time, zero for nothing. The alarm is on for
// as long as it lasts, and then it is over.
func (r *rules) event(at time.Time, lasts time.Duration, severity Severity, name, format string, args ...any) {
	if at.IsZero() {
		return
	}
	a := Alarm{Name: name, Severity: severity, Message: fmt.Sprintf(format, args...), Scraped: severity}
	age := r.now.Sub(at)
	if age >= max(lasts, scraped) {
		a.Scraped = ""
	}
	if age >= lasts {
		a.Message = fmt.Sprintf("over, was %s until %s: %s", severity, at.UTC().Format(time.RFC3339), a.Message)
		a.Severity, a.Over = Info, at
	}
	r.raised = append(r.raised, a)
}

// indices has the rules of indices and segments that repeat or were left out.
func (r *rules) indices(q queue.Stats, tags segment.Stats) {
	r.when(q.Repeated > 0, Critical, "ShardidRepeatedIndices",
		"a list gave %d indices for the second time or out of order, and this replica refused them: another program "+
			"writes to the lists; find it before anything else", q.Repeated)
	r.when(tags.Repeated > 0, Critical, "ShardidRepeatedSegments",
		"leaf_alloc gave %d segments for the second time, and this replica refused them: find "+
			"the second writer of the table", tags.Repeated)
	lifts, far := r.rose("lifts", q.Lifts+tags.Lifts), r.rose("far lifts", q.FarLifts)
	r.event(far, fresh, Critical, "ShardidDatabaseWentBackFar",
		"the database went back in time by more than queue.lift_alarm: max_id was lifted (%d times by so much); find "+
			"out what restored it and what else it lost", q.FarLifts)
	if lifts.After(far) {
		r.event(lifts, fresh, Warning, "ShardidDatabaseWentBack",
			"max_id was below what had been handed out and was lifted: the database went back in time; no ID "+
				"repeats, find out what restored it")
	}
	of := ""
	if tags.MostJumped != "" {
		of = fmt.Sprintf(", the most of tag %q", tags.MostJumped)
	}
	r.event(r.rose("jumps", q.Jumps+tags.Jumps), fresh, Warning, "ShardidIndicesLeftOut",
		"the database and Redis both changed, and to be safe %d indices of lists and %d IDs of tags were left "+
			"out%s: find out what changed them", q.Jumped, tags.Jumped, of)
}

func (r *rules) apps(apps []queue.View) {
	var waiting, commands, full, near, wrap []string
	for _, v := range apps {
		app := fmt.Sprintf("%d (%s)", v.App, v.Name)
		if v.Unconfirmed > 0 {
			waiting = append(waiting, app)
			commands = append(commands, fmt.Sprintf("`shardid confirm --app %d --name %q`", v.App, v.Name))
		}
		if v.Exhausted > 0 {
			full = append(full, app)
		} else if v.Left < nearLimit {
			near = append(near, app)
		}
		if v.Policy == model.LimitWrap {
			wrap = append(wrap, app)
		}
	}
	names := func(apps []string) string {
		if len(apps) == 1 {
			return "app " + apps[0]
		}
		return "apps " + some(apps)
	}
	r.when(waiting != nil, Critical, "ShardidConfirmationNeeded",
		"%s: lists wait for an operator, as max_id may have gone back: check it "+
			"against the IDs in use, then run %s", names(waiting), some(commands))
	r.when(full != nil, Critical, "ShardidLimitReached",
		"%s: callers of some shards get -5: raise max_limit_id or provision another app", names(full))
	r.when(near != nil, Warning, "ShardidLimitNear",
		"%s: less than a tenth of the indices of a shard is left: raise max_limit_id "+
			"or provision another app in time", names(near))
	r.when(wrap != nil, Info, "ShardidWrapApp",
		"%s: the wrap policy repeats IDs once they pass the limit: use reject unless that is wanted", names(wrap))
}

// stores has the rules of conditions and of requests that they make fail. A condition that
// only waits for a store that is away raises no alarm of its own.
func (r *rules) stores(s Snapshot, tags segment.Stats) {
	var away, refill, other []string
	for _, c := range s.Conditions {
		failure := c.String()
		switch {
		case c.OK:
		case slices.Contains([]string{"database", "redis", "zookeeper"}, c.Name):
			away = append(away, failure)
		case c.Name == queue.ConditionRefill || c.Name == segment.ConditionLoad:
			refill = append(refill, failure)
		case c.Name != worker.Condition: // about which the state of the lease says more
			other = append(other, failure)
		}
	}
	r.when(away != nil, Critical, "ShardidStoreAway",
		"a store cannot be used; IDs last as long as what is held: bring it back (%s)", strings.Join(away, "; "))
	r.when(refill != nil && away == nil, Critical, "ShardidRefillFailing",
		"no new indices or segments can be had; IDs last as long as what is held: %s", strings.Join(refill, "; "))
	var said []string
	if other != nil {
		said = append(said, "something that is tried again and again fails: "+strings.Join(other, "; "))
	}
	for _, v := range s.Apps {
		if v.Emptied {
			said = append(said, fmt.Sprintf("every list in use of app %d (%s) is empty: its "+
				"next callers wait for a refill", v.App, v.Name))
		}
	}
	r.when(said != nil && away == nil, Warning, "ShardidConditionFailing", "%s", some(said))
	lasts := historyEvery
	if away != nil || refill != nil {
		lasts = lately
	}
	starved := s.Queue.Starved + tags.Starved
	if s.Sequence != nil {
		starved += s.Sequence.Starved
	}
	r.event(r.rose("starved", starved), lasts, Critical, "ShardidStarved",
		"callers got -4, as no index, segment or number of a sequence could be had in time: look at the "+
			"stores and at how long refills take")
	r.event(r.rose("none free", s.NoneFree), fresh, Critical, "ShardidNoWorkerIDFree",
		"callers got -8, as every worker ID of the name %q is leased: its holders go on, but no further one can make "+
			"IDs; stop holders that are not needed, or add a name with more worker bits", s.NoneFreeOf)
	r.event(r.rose("faults", s.HTTP[issuer.CodeInternal]+s.RESP[issuer.CodeInternal]), fresh, Warning,
		"ShardidInternalErrors",
		"callers got -11, a fault of shardid: the log has it; please report it")
}

func (r *rules) snowflake(s *Snowflake) {
	if s == nil {
		return
	}
	w := s.Worker
	r.when(w.State == worker.StateWaiting, Critical, "ShardidLeaseNotTrusted",
		"snowflake issues nothing, as no worker ID is held or trusted: %s", cmp.Or(w.Error,
			"none has been acquired yet"))
	r.when(w.State == worker.StateOffline, Warning, "ShardidWorkerOffline",
		"the registry of worker IDs is away and the local file reserves time "+
			"for %s more: bring it back (%s)", w.Trust.Round(time.Second), w.Error)
	r.when(w.ClockOffset.Abs() > s.MaxOffset/2, Warning, "ShardidClockOffset",
		"this clock is %s from the registry's, at most %s are allowed: set the clocks "+
			"(NTP)", w.ClockOffset.Round(time.Millisecond), s.MaxOffset)
	r.when(s.Remaining < shortLife, Warning, "ShardidSnowflakeLifetime",
		"the 41 bits of time of snowflakes end in %d days: plan a later epoch, "+
			"and another column for its IDs", days(s.Remaining))
}

func (r *rules) uid(u *UID) {
	if u == nil {
		return
	}
	s := u.Status
	dried := r.rose("ring", u.Stats.Refused)
	if u.Stats.Issued > 0 && s.RingSize > 0 && s.RingFill == 0 {
		dried = r.now
	}
	r.event(dried, fresh, Warning, "ShardidRingDry",
		"the ring of UIDs ran dry: more are asked for than are filled, or it cannot be filled; look at "+
			"uid.boost_power and uid.padding_factor")
	r.when(s.WorkerID >= 0 && s.RunwaySeconds < int64(shortRunway.Seconds()), Warning, "ShardidUIDRunway",
		"UIDs end in %d s unless the mark in WORKER_NODE is raised: look at the database", s.RunwaySeconds)
	left := time.Duration(min(s.RemainingSeconds, int64(shortLife.Seconds()))) * time.Second
	r.when(left < shortLife, Warning, "ShardidUIDLifetime",
		"the time bits of UIDs end in %d days: plan a layout with more of them, or a later epoch: "+
			"docs/uid.md says which may follow", days(left))
}

func (r *rules) settings(s Snapshot) {
	settings := map[model.Level][]string{}
	for _, f := range s.Settings {
		settings[f.Level] = append(settings[f.Level], fmt.Sprintf("%s %s is %s, wanted %s", f.Store, f.Setting,
			f.Value, f.Want))
	}
	unsafe, doubtful := settings[model.LevelUnsafe], settings[model.LevelWarn]
	r.when(unsafe != nil, Critical, "ShardidUnsafeSetting",
		"settings of the stores are unsafe, see `shardid doctor`: %s", some(unsafe))
	r.when(doubtful != nil, Info, "ShardidDoubtfulSetting",
		"settings of the stores could be better, see `shardid doctor`: %s", some(doubtful))
}

// some is the first of a list, and how many more there are.
func some(all []string) string {
	if len(all) <= listed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:listed], ", "), len(all)-listed)
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }
