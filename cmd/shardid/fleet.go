package main

import (
	"context"
	"net"
	"net/netip"
	"os"

	"shardid/service/fleet"
	"shardid/service/history"
)

// wireFleet builds the record of this replica that the consoles of all replicas show.
func (a *App) wireFleet() {
	var store fleet.Store
	if a.redis != nil {
		store = a.redis.Replicas()
	}
	a.fleet = fleet.New(store, a.record)
	a.onStop("fleet", func(ctx context.Context) error { a.fleet.Stop(ctx); return nil })
}

// record is how this replica is doing now.
func (a *App) record() fleet.Record {
	host, _ := os.Hostname() // "" when the system does not tell
	ready, modes := a.api.Readiness()
	r := fleet.Record{
		Host: host, URL: a.url, Version: versionString(), StartedAt: a.startedAt,
		Ready: ready, Modes: map[string]fleet.Mode{}, WorkerID: -1, Alarms: map[string]int{},
	}
	series := a.history.All().Series
	for name, m := range modes {
		r.Modes[name] = fleet.Mode{Enabled: m.Enabled, Ready: m.Ready, IDsPerSecond: latest(series[name+".issued"])}
	}
	if a.snowflake != nil {
		r.WorkerID = a.snowflake.keeper.Status().WorkerID
	}
	for _, alarm := range a.lookForAlarms() {
		r.Alarms[string(alarm.Severity)]++
	}
	return r
}

// latest is the last value of a series, 0 when there is none.
func latest(series []history.Value) float64 {
	if len(series) == 0 || series[len(series)-1] != series[len(series)-1] {
		return 0
	}
	return float64(series[len(series)-1])
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
