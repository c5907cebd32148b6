package monitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"github.com/prometheus/client_golang/prometheus"
)

// The alarms are one table. Every few seconds, and whenever somebody asks, each row says of what is seen of
// the replica whether its alarm is on. What counts events keeps its alarm on for a while after the last one.

// Alarm is one thing that an operator should look at. docs/operations.md has a section for
// each name. /metrics exports the alarms as shardid_alarm, on which the rules of
// deploy/prometheus/alerts.yml fire.
type Alarm struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Message says what it means and what to do.
	Message string `json:"message"`
	// Facts are the parts of Message that differ from case to case, in their order. The console makes sentences of
	// other languages of them.
	Facts []string  `json:"facts,omitempty"`
	Since time.Time `json:"since"` // when it was first seen
}

// Severity is how soon an operator should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // IDs may repeat, or are not issued: now
	Warning  Severity = "warning"  // that may come: today
	Info     Severity = "info"     // it is as configured, and should be known
)

// State is what is looked at that no metric tells.
type State struct {
	Status                   // what the services know of it; the monitor knows the rest
	URL      string          // of the console
	Settings []model.Finding // what the stores said of theirs, when last asked
	// Worker is the worker ID of the snowflake mode, in no state when the mode is disabled. MaxOffset is
	// snowflake.max_clock_offset.
	Worker    worker.Status
	MaxOffset time.Duration
	// NoneFreeOf is the name whose worker IDs were all leased when one was last asked for.
	NoneFreeOf string
	// OldSchema says that the database lacks tables of this version. Snowflakes may continue with the worker file of
	// the version before, so that only this stops a rollout without migrations, at the first replica.
	OldSchema bool
	// Tags reads Status.Segment, which takes longer than the rest; Busiest gives the rates of the tags that are used
	// most. Both are nil when the mode is disabled.
	Tags    func() segment.Status
	Busiest func(most int) map[string]float64
}

const (
	// starves is how long it is told that callers got no ID, so that scrapes see it. The cause continues, or
	// there are no more of them.
	starves = 15 * time.Second
	// happened is how long it is told of what an operator has to find out about.
	happened = 15 * time.Minute
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

// sight is what is seen of the replica at one instant.
type sight struct {
	State
	conditions []model.Condition
	metrics    map[string]float64 // by metric.Sums
	slow       []string           // modes, by slowModes
	// rose says whether counters, which were 0 at the start of the process, rose within a time.
	rose func(within time.Duration, counters ...string) bool
}

// row is an alarm of a severity. It is on while says has a text.
type row struct {
	name     string
	severity Severity
	says     func(s *sight) message
}

// message is a text that says what an alarm means and what to do, with a verb for each of its facts.
type message struct {
	text  string
	facts []any
}

// when is a message if something is so.
func when(is bool, text string, facts ...any) message {
	if !is {
		return message{}
	}
	return message{text, facts}
}

// shown are the facts as the text shows them.
func (m message) shown() (facts []string) {
	for _, fact := range m.facts {
		if count, isCount := fact.(float64); isCount {
			fact = int64(count)
		}
		facts = append(facts, fmt.Sprint(fact))
	}
	return facts
}

// rows are all alarms. Of several rows of a name the first that is on counts.
func rows() []row {
	return []row{
		{"ShardidRepeatedIndices", Critical, func(s *sight) message {
			lists, tags := s.sum("shardid_queue_repeated_indices_total"), s.sum("shardid_segment_repeated_total")
			return when(lists+tags > 0,
				"find the other program that writes to the lists or to leaf_alloc, before anything else. Lists gave "+
					"%.0f indices and leaf_alloc gave %.0f segments for the second time or out of order, and this "+
					"replica refused them", lists, tags)
		}},
		{"ShardidDatabaseWentBack", Critical, func(s *sight) message {
			return when(s.rose(happened, "shardid_queue_lift_alarms_total"),
				"find out what restored the database, and what else it lost. It went back in time by more than "+
					"100000 indices: max_id was raised by so much %.0f times", s.sum("shardid_queue_lift_alarms_total"))
		}},
		{"ShardidDatabaseWentBack", Warning, func(s *sight) message {
			return when(s.rose(happened, "shardid_queue_lifts_total", "shardid_segment_lifts_total"),
				"find out what restored the database. It went back in time: max_id was below what had been issued, "+
					"and was raised, so no ID repeats")
		}},
		{"ShardidIndicesLeftOut", Warning, func(s *sight) message {
			indices, ids := `shardid_queue_wasted_indices_total{reason="jumped"}`, "shardid_segment_jumped_ids_total"
			return when(s.rose(happened, indices, ids),
				"find out what happened to the database, and why Redis could not vouch for it: %.0f indices of "+
					"lists and %.0f IDs of tags were skipped to be safe",
				s.sum(indices), s.sum(ids))
		}},
		{"ShardidConfirmationNeeded", Critical, func(s *sight) message {
			waits := func(v queue.View) bool { return v.Unconfirmed > 0 }
			var commands []string
			for _, v := range s.Queue.Apps {
				if waits(v) {
					commands = append(commands, fmt.Sprintf("`shardid confirm --app %d --name %q`", v.App, v.Name))
				}
			}
			return when(commands != nil, "check max_id against the IDs in use, then run %[2]s. Lists wait for that, "+
				"as max_id may have gone back: %[1]s", s.apps(waits), some(commands))
		}},
		{"ShardidAppLimit", Critical, func(s *sight) message {
			full := s.apps(func(v queue.View) bool { return v.Exhausted > 0 })
			return when(full != "",
				"raise max_limit_id, or provision another app. Callers of some shards get -5: %s", full)
		}},
		{"ShardidAppLimit", Warning, func(s *sight) message {
			near := s.apps(func(v queue.View) bool { return v.Left < nearLimit })
			return when(near != "", "raise max_limit_id, or provision another app, in time. Less than a tenth of "+
				"the indices of a shard is left: %s", near)
		}},
		{"ShardidSetting", Critical, func(s *sight) message {
			unsafe := s.settings(model.LevelUnsafe)
			return when(unsafe != nil,
				"run `shardid doctor`, and do what it says. Settings of the stores are unsafe: %s", some(unsafe))
		}},
		{"ShardidSetting", Info, func(s *sight) message {
			wrap := s.apps(func(v queue.View) bool { return v.Policy == model.LimitWrap })
			return when(wrap != "",
				"use the limit policy reject, unless IDs may repeat. With wrap they do, once they pass the limit: %s",
				wrap)
		}},
		{"ShardidSetting", Info, func(s *sight) message {
			doubtful := s.settings(model.LevelWarn)
			return when(doubtful != nil, "run `shardid doctor` to see how settings of the stores could be better: %s",
				some(doubtful))
		}},
		{"ShardidStoreAway", Critical, func(s *sight) message {
			away := s.failing(isStore)
			return when(away != nil, "bring the store back. Replicas issue the IDs that they hold, then refuse: %s",
				strings.Join(away, "; "))
		}},
		{"ShardidConditionFailing", Critical, func(s *sight) message {
			refill := s.failing(isRefill)
			return when(refill != nil && s.failing(isStore) == nil,
				"look at the failure and at the stores. No new IDs arrive: replicas issue the IDs that they hold, "+
					"then answer -4: %s",
				strings.Join(refill, "; "))
		}},
		{"ShardidConditionFailing", Warning, func(s *sight) message {
			other := s.failing(func(name string) bool {
				held := !isUID(name) || s.sum("shardid_uid_worker_id") >= 0
				return !isStore(name) && !isRefill(name) && name != worker.Condition && held // see ShardidWorkerID
			})
			return when(other != nil && s.failing(isStore) == nil,
				"mend what fails each time that it is tried: %s", strings.Join(other, "; "))
		}},
		{"ShardidStarved", Critical, func(s *sight) message {
			return when(s.rose(starves, `shardid_refused_total{code="-4"}`),
				"look at the stores, and at how long refills take. Callers got -4, because no new IDs arrived in time")
		}},
		{"ShardidStarved", Warning, func(s *sight) message {
			empty := s.sum("shardid_uid_issued_total") > 0 && s.sum("shardid_uid_ring_size") > 0 &&
				s.sum("shardid_uid_ring_fill") == 0
			return when(s.rose(starves, "shardid_uid_refused_total") || empty,
				"look at uid.boost_power and uid.padding_factor. The ring of UIDs ran empty: callers ask faster than "+
					"it is filled, or it cannot be filled")
		}},
		{"ShardidWorkerID", Critical, func(s *sight) message {
			return when(s.Worker.State == worker.StateWaiting, "look at the registry of worker IDs. Snowflake issues "+
				"nothing, because this replica holds no worker ID: %s",
				cmp.Or(model.Message(s.Worker.Err), "none has been acquired yet"))
		}},
		{"ShardidWorkerID", Critical, func(s *sight) message {
			node := s.failing(isUID)
			return when(node != nil && s.sum("shardid_uid_worker_id") < 0 && s.failing(isStore) == nil,
				"look at the database. UIDs are not issued, because this replica holds no worker ID: %s",
				strings.Join(node, "; "))
		}},
		{"ShardidWorkerID", Critical, func(s *sight) message {
			return when(s.rose(starves, "shardid_leases_none_free_total"), "stop holders that are not needed, or "+
				"add a name with more worker bits. Callers got -8, because every worker ID of the %s is leased",
				fmt.Sprintf("name %q", s.NoneFreeOf))
		}},
		{"ShardidWorkerID", Warning, func(s *sight) message {
			w := s.Worker
			return when(w.State == worker.StateOffline, "look at the registry of worker IDs, and at data_dir. "+
				"The worker ID was not renewed, and IDs end in %s at the latest: %s",
				w.Trust.Round(time.Second), model.Message(w.Err))
		}},
		{"ShardidWorkerID", Warning, func(s *sight) message {
			runway, held := s.metrics["shardid_uid_runway_seconds"], s.sum("shardid_uid_worker_id") >= 0
			return when(s.has("shardid_uid_runway_seconds") && held && runway < shortRunway.Seconds(),
				"look at the database. %s unless their mark in WORKER_NODE is raised",
				fmt.Sprintf("UIDs end in %s", time.Duration(runway)*time.Second))
		}},
		{"ShardidClockOffset", Warning, func(s *sight) message {
			offset := s.Worker.ClockOffset
			return when(offset.Abs() > s.MaxOffset/2, "set the clocks (NTP). This one is %s from the registry's, at "+
				"most %s are allowed", offset.Round(time.Millisecond), s.MaxOffset)
		}},
		{"ShardidLifetime", Critical, func(s *sight) message {
			ended := s.lives(func(left float64) bool { return left <= 0 })
			return when(ended != nil, "use a layout with more time bits, or a later epoch and another column for its "+
				"IDs; docs/uid.md says which layouts may follow. The time bits have ended, and no ID is issued, %s",
				some(ended))
		}},
		{"ShardidLifetime", Warning, func(s *sight) message {
			end := s.lives(func(left float64) bool { return left > 0 && left < shortLife.Seconds() })
			return when(end != nil, "plan a layout with more time bits, or a later epoch and another column for its "+
				"IDs; docs/uid.md says which layouts may follow. The time bits end soon, %s", some(end))
		}},
		{"ShardidInternalErrors", Warning, func(s *sight) message {
			return when(s.rose(happened, "shardid_faults_total"),
				"look at the log, and report this fault of shardid. Callers got -11")
		}},
		{"ShardidSlow", Warning, func(s *sight) message {
			return when(s.slow != nil, "look at the stores and at the CPU. One in a hundred requests takes more than "+
				"%d ms, in the mode %s: callers wait for refills or loads, or the machine is short of CPU", slowAbove,
				strings.Join(s.slow, ", "))
		}},
	}
}

func isStore(condition string) bool {
	return condition == "database" || condition == "redis" || condition == "zookeeper"
}

func isRefill(condition string) bool {
	return condition == queue.ConditionRefill || condition == segment.ConditionLoad
}

// failing are the conditions of some names that do not work, with their failures.
func (s *sight) failing(is func(name string) bool) (failures []string) {
	for _, c := range s.conditions {
		if !c.OK && is(c.Name) {
			failures = append(failures, model.Message(c.Failure()))
		}
	}
	return failures
}

// sum adds up metrics; one that is not there is 0.
func (s *sight) sum(metrics ...string) (sum float64) {
	for _, name := range metrics {
		sum += s.metrics[name]
	}
	return sum
}

func (s *sight) has(metric string) bool {
	_, has := s.metrics[metric]
	return has
}

// apps names those for which something holds, "" when it holds for none.
func (s *sight) apps(holds func(queue.View) bool) string {
	var names []string
	for _, v := range s.Queue.Apps {
		if holds(v) {
			names = append(names, fmt.Sprintf("%d (%s)", v.App, v.Name))
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "app " + names[0]
	}
	return "apps " + some(names)
}

// settings are those of the stores at a level.
func (s *sight) settings(level model.Level) (settings []string) {
	for _, f := range s.Settings {
		if f.Level == level {
			settings = append(settings, fmt.Sprintf("%s %s is %s, wanted %s", f.Store, f.Setting, f.Value, f.Want))
		}
	}
	return settings
}

// some is the first of a list, and how many more there are.
func some(all []string) string {
	if len(all) <= listed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:listed], ", "), len(all)-listed)
}

// Alarms looks at the replica and returns the alarms that are on, the most severe first.
func (m *Monitor) Alarms() []Alarm {
	_, _, raised := m.look()
	return raised
}

// Raised are the alarms as they were last seen, five seconds ago at most.
func (m *Monitor) Raised() []Alarm {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.raised
}

// look reads the metrics and the state, and raises the alarms of what is seen.
func (m *Monitor) look() (reading, State, []Alarm) {
	families, _ := m.metrics.Gather() // as much as can be read; a scrape tells what cannot
	state := m.state()
	r := newReading(families, state.Queue.Apps, m.now())
	s := &sight{State: state, conditions: m.Conditions(), metrics: r.sums}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.slow = m.slowModes()
	s.rose = func(within time.Duration, counters ...string) bool {
		name := strings.Join(counters, " ")
		last := m.rises[name]
		if value := s.sum(counters...); value > last.value {
			last = rise{value, r.at}
			m.rises[name] = last
		}
		return r.at.Sub(last.at) < within
	}
	raised, named := []Alarm{}, func(name string) func(Alarm) bool {
		return func(a Alarm) bool { return a.Name == name }
	}
	for _, row := range rows() {
		says := row.says(s)
		if says.text == "" || slices.ContainsFunc(raised, named(row.name)) {
			continue
		}
		since := r.at.UTC()
		if i := slices.IndexFunc(m.raised, named(row.name)); i >= 0 {
			since = m.raised[i].Since
		}
		raised = append(raised, Alarm{Name: row.name, Severity: row.severity,
			Message: fmt.Sprintf(says.text, says.facts...), Facts: says.shown(), Since: since})
	}
	order := map[Severity]int{Critical: 0, Warning: 1, Info: 2}
	slices.SortStableFunc(raised, func(a, b Alarm) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	m.raised = raised
	return r, state, raised
}

// rise is a counter and when it rose last.
type rise struct {
	value float64
	at    time.Time
}

// Describe implements prometheus.Collector. It names no metrics: Gather checks them.
func (*Monitor) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector: the conditions, and the alarms as they were last seen.
func (m *Monitor) Collect(metrics chan<- prometheus.Metric) {
	ok := prometheus.NewDesc("shardid_condition_ok", "Whether something the service depends on works: 1 or 0.",
		[]string{"name"}, nil)
	for _, c := range m.Conditions() {
		value := 0.0
		if c.OK {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(ok, prometheus.GaugeValue, value, c.Name)
	}
	alarm := prometheus.NewDesc("shardid_alarm", "1 for each alarm that is on; docs/operations.md has a section for "+
		"each name. An alarm about an event stays for 15 s at least.", []string{"name", "severity"}, nil)
	for _, a := range m.Raised() {
		metrics <- prometheus.MustNewConstMetric(alarm, prometheus.GaugeValue, 1, a.Name, string(a.Severity))
	}
}

// isUID says whether a condition is that of the worker ID of UIDs.
func isUID(name string) bool { return name == uid.Condition }

// lives are the kinds of IDs whose time bits last for so long, in seconds.
func (s *sight) lives(isSo func(left float64) bool) (kinds []string) {
	for _, kind := range [][2]string{{"snowflakes", "shardid_snowflake_lifetime_seconds"},
		{"UIDs", "shardid_uid_lifetime_seconds"}} {
		if left := s.metrics[kind[1]]; s.has(kind[1]) && isSo(left) {
			kinds = append(kinds, fmt.Sprintf("%s: %d d", kind[0], max(0, int(left/(24*3600)))))
		}
	}
	return kinds
}
