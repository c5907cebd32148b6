package main

import (
	"context"
	"time"

	"shardid/model"
	"shardid/service/alarm"
	"shardid/service/history"
	"shardid/service/httpapi"
	"shardid/service/latency"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/snowflake"
	"shardid/service/uid"
)

// wireHistory builds what the console's charts come from.
func (a *App) wireHistory() {
	a.history = history.New(history.Options{
		Rates: []string{
			"queue.issued", "segment.issued", "snowflake.issued", "uid.issued",
			"refused", "refused.caller", "refused.service",
		},
		Counts: []string{
			"queue.refills", "queue.pops", "queue.wasted",
			"segment.loads", "segment.wasted", "snowflake.wasted", "uid.wasted",
		},
		Timings: modes(),
		Read:    a.reading,
	})
	a.onStop("history", func(context.Context) error { a.history.Stop(); return nil })
}

// modes are all four, in the order in which the history has them.
func modes() []string {
	return []string{httpapi.ModeQueue, httpapi.ModeSegment, httpapi.ModeSnowflake, httpapi.ModeUID}
}

// reading is where the counters stand, in the order of wireHistory. Alarms are looked
// at as often, so that each is known to be on since it came.
func (a *App) reading() history.Reading {
	a.lookForAlarms()
	s := a.stats()
	traffic := a.api.Traffic()
	var caller, service int64
	timings := make([]latency.Reading, 0, len(traffic))
	for _, mode := range modes() {
		t := traffic[mode]
		caller, service = caller+t.Refused.Count(), service+t.Failed.Count()
		timings = append(timings, t.OK.Plus(t.Failed))
	}
	return history.Reading{
		Rates: []int64{
			s.queue.Issued, s.segment.Issued, s.snowflake.Issued, s.uid.Issued,
			caller + service, caller, service,
		},
		Counts: []int64{
			s.queue.Refills, s.queue.Pops, sum(s.queue.Wasted()),
			s.segment.Loads, s.segment.Wasted, s.snowflake.Wasted, s.uid.Dropped,
		},
		Timings: timings, Apps: a.issuedByApp(),
	}
}

// stats are those of all modes.
type stats struct {
	queue     queue.Stats
	segment   segment.Stats
	snowflake snowflake.Stats
	uid       uid.Stats
}

// stats reads them; the counters of one that is disabled are unknown.
func (a *App) stats() stats {
	const unknown = history.Unknown
	s := stats{
		queue:     a.queue.Stats(),
		segment:   segment.Stats{Issued: unknown, Loads: unknown, Wasted: unknown},
		snowflake: snowflake.Stats{Issued: unknown, Wasted: unknown},
		uid:       uid.Stats{Issued: unknown, Dropped: unknown},
	}
	if a.segment != nil {
		s.segment = a.segment.Stats()
	}
	if a.snowflake != nil {
		s.snowflake = a.snowflake.service.Stats()
	}
	if a.uid != nil {
		s.uid = a.uid.Stats()
	}
	return s
}

// issuedByApp is unknown for apps that do not exist.
func (a *App) issuedByApp() (issued [model.Apps]int64) {
	for i := range issued {
		issued[i] = history.Unknown
	}
	for _, v := range a.queue.Seen() {
		issued[v.App] = v.Issued
	}
	return issued
}

// sum is that of all reasons.
func sum(byReason map[string]int64) (n int64) {
	for _, of := range byReason {
		n += of
	}
	return n
}

// lookForAlarms returns what an operator should look at now.
func (a *App) lookForAlarms() []alarm.Alarm {
	f := alarm.Facts{
		Conditions: a.monitor.Conditions(), Settings: a.watch.Findings(), UnsafeNoHistory: a.cfg.Redis.UnsafeNoHistory,
		Queue: a.queue.Stats(), Apps: a.queue.Seen(), Faults: a.api.Answers()[-11],
	}
	if a.segment != nil {
		f.Segment = a.segment.Stats()
	}
	if a.snowflake != nil {
		s := a.snowflakeSample()
		f.Snowflake = &alarm.Snowflake{Worker: s.Worker, MaxOffset: s.MaxOffset, Remaining: s.Remaining}
	}
	if a.uid != nil {
		status := a.uid.Status()
		f.UID, f.RingEmpty = &status, a.uid.Stats().Refused
	}
	return a.alarms.Look(time.Now(), f)
}
