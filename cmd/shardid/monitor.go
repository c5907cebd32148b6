package main

import (
	"net"
	"net/netip"
	"os"

	"shardid/service/issuer"
	"shardid/service/monitor"
)

// snapshot is how this replica is doing now, for its alarms and charts.
func (a *App) snapshot() monitor.Snapshot {
	s := monitor.Snapshot{
		Settings: a.watch.Findings(), UnsafeNoHistory: a.cfg.Redis.UnsafeNoHistory,
		Queue: a.queue.Stats(), Apps: a.queue.Seen(),
		Traffic: map[string]monitor.Traffic{}, RESP: -1,
	}
	s.HTTP, s.Faults = answered(a.api.Answers())
	if a.resp != nil {
		var faults int64
		s.RESP, faults = answered(a.resp.Answers())
		s.Faults += faults
	}
	if a.segment != nil {
		stats := a.segment.Stats()
		s.Segment = &stats
	}
	if a.snowflake != nil {
		sample := monitor.Snowflake(a.snowflakeSample())
		s.Snowflake = &sample
	}
	if a.uid != nil {
		s.UID = &monitor.UID{Stats: a.uid.Stats(), Status: a.uid.Status()}
	}
	for mode, t := range a.issuer.Traffic() {
		s.Traffic[mode] = monitor.Traffic{
			Refused: t.Refused.Count(), Failed: t.Failed.Count(), Times: t.OK.Plus(t.Failed),
		}
	}
	return s
}

// answered sums what was answered by code, and says how much of it was our fault.
func answered(codes map[int]int64) (all, faults int64) {
	for _, n := range codes {
		all += n
	}
	return all, codes[issuer.CodeInternal]
}

// wireReplicas builds what shows all replicas of the deployment.
func (a *App) wireReplicas() {
	var store monitor.RecordStore
	if a.redis != nil {
		store = a.redis.Replicas()
	}
	a.replicas = monitor.NewReplicas(store, a.record)
	a.onStop("replicas", a.replicas.Stop)
}

// record is how this replica is doing now, for the consoles of all replicas.
func (a *App) record() monitor.Record {
	host, _ := os.Hostname() // "" when the system does not tell
	ready, modes := a.api.Readiness()
	r := monitor.Record{
		Host: host, URL: a.url, Version: versionString(), StartedAt: a.startedAt,
		Ready: ready, Modes: map[string]monitor.ModeRecord{}, WorkerID: -1, Alarms: map[string]int{},
	}
	series := a.monitor.History().Series
	for name, m := range modes {
		mode := monitor.ModeRecord{Enabled: m.Enabled, Ready: m.Ready}
		if issued := series[name+".issued"]; len(issued) > 0 && issued[len(issued)-1] >= 0 { // not NaN
			mode.IDsPerSecond = float64(issued[len(issued)-1])
		}
		r.Modes[name] = mode
	}
	if a.snowflake != nil {
		r.WorkerID = a.snowflake.keeper.Status().WorkerID
	}
	for _, alarm := range a.monitor.Alarms() {
		r.Alarms[string(alarm.Severity)]++
	}
	return r
}

// consoleURL is where others find this replica: the address that it listens on or, when
// that is all of the machine's, the one by which it is known to others.
func consoleURL(cfg Config, listens net.Addr) string {
	address := listens.String()
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		if known, err := instanceAddress(cfg, listens); err == nil {
			address = known
		}
	}
	return cfg.Server.Scheme() + "://" + address + "/"
}
