package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/monitor"
	"shardid/service/observe"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
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

// status is what /api/status tells beyond what the HTTP front end knows itself.
func (a *App) status(ctx context.Context) httpapi.Status {
	queue, rates := a.queue.Status(ctx), a.monitor.AppRates()
	for i, app := range queue.Apps {
		queue.Apps[i].PerSecond = rates[app.App]
	}
	s := httpapi.Status{
		Version: versionString(), StartedAt: a.startedAt, Alarms: a.monitor.Alarms(), Queue: &queue,
	}
	if a.segment != nil {
		segment := a.segment.Status()
		s.Segment = &segment
	}
	if m := a.snowflake; m != nil {
		lease := m.keeper.Status()
		s.Snowflake = &httpapi.SnowflakeStatus{
			Issued: m.service.Stats().Issued, WorkerID: lease.WorkerID, Mode: lease.Mode,
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

// wireObserve begins to send spans when a receiver is configured, and prepares what
// decorates the stores. It comes before all others, so that it is stopped after them.
func (a *App) wireObserve() error {
	if c := a.cfg.Tracing; c.Endpoint != "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name this instance for tracing: %w", err)
		}
		a.tracer, err = observe.StartTracer(observe.TracerOptions{
			Endpoint: c.Endpoint, SampleRatio: c.SampleRatio, Version: versionString(),
			Instance: fmt.Sprintf("%s-%d", host, os.Getpid()), Log: a.log,
		})
		if err != nil {
			return err
		}
		a.onStop("tracing", func(ctx context.Context) error { a.tracer.Stop(ctx); return nil })
	}
	a.stores = observe.NewStores(a.tracer)
	return nil
}

// metrics exports the counters of what is enabled to Prometheus.
func (a *App) metrics() func(context.Context) ([]byte, error) {
	sources := observe.Sources{
		Version: versionString(), UnsafeNoHistory: a.cfg.Redis.UnsafeNoHistory, Stores: a.stores,
		Conditions: a.monitor.Conditions, Settings: a.watch.Findings,
		// The API comes after its own metrics.
		Answers: func() map[int]int64 { return a.api.Answers() },
		Traffic: a.issuer.Traffic,
		Connections: func() observe.Connections {
			c := a.connections
			return observe.Connections{Open: c.open.Load(), Refused: c.refused.Load(), Failed: c.failed.Load()}
		},
		Queue: func() (queue.Stats, []queue.View) { return a.queue.Stats(), a.queue.Seen() },
	}
	if a.cfg.RESP.Addr != "" {
		sources.RESPAnswers = func() map[int]int64 { return a.resp.Answers() }
	}
	if a.segment != nil {
		sources.Segment = func() (segment.Stats, []segment.View) { return a.segment.Stats(), a.segment.Views() }
	}
	if a.snowflake != nil {
		sources.Snowflake = a.snowflakeSample
	}
	if a.uid != nil {
		sources.UID = func() (uid.Stats, uid.Status) { return a.uid.Stats(), a.uid.Status() }
	}
	return observe.Text(sources)
}

func (a *App) snowflakeSample() observe.Snowflake {
	m := a.snowflake
	return observe.Snowflake{
		Stats: m.service.Stats(), Worker: m.keeper.Status(),
		MaxOffset: a.cfg.Snowflake.MaxClockOffset, Remaining: m.generator.Remaining(),
	}
}
