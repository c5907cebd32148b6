package main

import (
	"context"
	"net"
	"net/netip"
	"os"

	"shardid/service/httpapi"
	"shardid/service/monitor"
	"shardid/service/observe"

	"github.com/prometheus/client_golang/prometheus"
)

// state is what the alarms look at that no metric tells.
func (a *App) state() monitor.State {
	s := monitor.State{
		Settings: a.watch.Findings(), Apps: a.queue.Seen(), MaxOffset: a.cfg.Snowflake.MaxClockOffset,
		NoneFreeOf: a.api.NoneFreeOf(),
	}
	if a.snowflake != nil {
		s.Worker = a.snowflake.keeper.Status()
	}
	return s
}

// record is how this replica is doing now, for the consoles of all replicas.
func (a *App) record() monitor.Record {
	host, _ := os.Hostname() // "" when the system does not tell
	ready, modes := a.api.Readiness()
	r := monitor.Record{
		Host: host, URL: a.url, Version: versionString(), StartedAt: a.startedAt,
		Ready: ready, Modes: map[string]monitor.ModeRecord{}, WorkerID: -1, Alarms: map[string]int{},
	}
	for name, m := range modes {
		r.Modes[name] = monitor.ModeRecord{Enabled: m.Enabled, Ready: m.Ready,
			IDsPerSecond: a.monitor.Latest(name + ".issued")}
	}
	if a.snowflake != nil {
		r.WorkerID = a.snowflake.keeper.Status().WorkerID
	}
	for _, alarm := range a.monitor.Raised() {
		r.Alarms[string(alarm.Severity)]++
	}
	return r
}

// consoleURL is where others find this replica: the address that it listens on or, when
// that is all of the machine's, the one by which it is known to others.
func consoleURL(cfg Config, listens net.Addr) string {
	address := listens.String()
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		address = instanceAddress(cfg, listens)
	}
	return cfg.Server.Scheme() + "://" + address + "/"
}

// status is what /api/status tells beyond what the HTTP front end knows itself.
func (a *App) status(_ context.Context) httpapi.Status {
	queue := a.queue.Status()
	for i, app := range queue.Apps {
		queue.Apps[i].PerSecond = a.monitor.Latest(monitor.AppSeries(app.App))
	}
	s := httpapi.Status{
		Version: versionString(), StartedAt: a.startedAt, Alarms: a.monitor.Alarms(), Queue: &queue,
	}
	if r := region(a.cfg); r.Bits > 0 {
		s.Region = &r
	}
	if v := a.db.Vouching(); v != nil {
		s.Witness = &httpapi.WitnessStatus{State: httpapi.WitnessUnknown, HeldSince: v.Since.UTC()}
		if v.Known {
			s.Witness.State = map[bool]string{true: httpapi.WitnessNamed, false: httpapi.WitnessNone}[v.Named]
		}
	}
	if a.segment != nil {
		segment := a.segment.Status()
		s.Segment = &segment
	}
	if m := a.snowflake; m != nil {
		lease := m.keeper.Status()
		s.Snowflake = &httpapi.SnowflakeStatus{
			Issued: m.service.Issued(), WorkerID: lease.WorkerID, Mode: lease.Mode,
			Address: lease.Address, State: lease.State, ReservedUntil: lease.Reserved,
			TrustSeconds: lease.Trust.Seconds(), ClockOffsetSeconds: lease.ClockOffset.Seconds(),
			RemainingLifetimeSeconds: int64(m.generator.Remaining().Seconds()), Error: lease.Error,
		}
	}
	if a.uid != nil {
		uid := a.uid.Status()
		s.UID = &uid
	}
	return s
}

// metrics exports the counters of what is enabled to Prometheus.
func (a *App) metrics() prometheus.Gatherer {
	sources := observe.Sources{Version: versionString(), Registry: a.registry, Apps: a.queue.Seen}
	if a.snowflake != nil {
		sources.Worker = a.snowflake.keeper.Status
	}
	if a.uid != nil {
		sources.UID = a.uid.Status
	}
	return observe.Gatherer(sources)
}
