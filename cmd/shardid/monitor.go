package main

import (
	"net"
	"net/netip"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/monitor"
	"shardid/service/uid"
)

// state is what the monitor and the metrics tell of the services.
func (a *App) state() monitor.State {
	s := monitor.State{
		URL: a.url, Settings: a.watch.Findings(), MaxOffset: a.cfg.Snowflake.MaxClockOffset,
		NoneFreeOf: a.api.NoneFreeOf(), OldSchema: sqlstore.LacksSchema(a.monitor.Err(conditionDatabase)),
	}
	s.Version, s.Region, s.Witness, s.Queue = versionString(), region(a.cfg), a.db.Vouching(), a.queue.Status()
	if a.segment != nil {
		s.Tags, s.Busiest = a.segment.Status, a.segment.Busiest
	}
	if a.snowflake != nil {
		lease := a.keeper.Status()
		s.Worker, s.Snowflake = lease, &monitor.SnowflakeStatus{
			Issued: a.snowflake.Issued.Load(), WorkerID: lease.WorkerID, Mode: lease.Mode,
			Address: lease.Address, State: lease.State, ReservedUntil: lease.Reserved,
			TrustSeconds: lease.Trust.Seconds(), ClockOffsetSeconds: lease.ClockOffset.Seconds(),
			RemainingLifetimeSeconds: int64(a.snowflake.Generator.Remaining().Seconds()),
			Error:                    model.Message(lease.Err),
		}
	}
	s.UID = a.uidStatus()
	return s
}

// uidStatus is nil with the mode disabled.
func (a *App) uidStatus() *uid.Status {
	if a.uid == nil {
		return nil
	}
	return new(a.uid.Status())
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
