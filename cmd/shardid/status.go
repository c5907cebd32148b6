package main

import (
	"context"

	"shardid/service/httpapi"
)

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
