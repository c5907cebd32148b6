package main

import (
	"context"

	"shardid/service/httpapi"
	"shardid/service/segment"
)

// status is what /api/status tells beyond what the HTTP front end knows itself.
func (a *App) status(ctx context.Context) httpapi.Status {
	s := httpapi.Status{Version: versionString(), StartedAt: a.startedAt, Queue: a.queueStatus(ctx), Alarms: a.monitor.Alarms()}
	if a.segment != nil {
		s.Segment = &httpapi.SegmentStatus{Issued: a.segment.Stats().Issued, Tags: a.segmentViews()}
	}
	if a.snowflake != nil {
		s.Snowflake = a.snowflake.status()
	}
	if a.uid != nil {
		s.UID = a.uidStatus()
	}
	return s
}

func (a *App) queueStatus(ctx context.Context) *httpapi.QueueStatus {
	views := a.queue.Views(ctx)
	rates := a.monitor.AppRates()
	apps := make([]httpapi.AppStatus, len(views))
	for i, v := range views {
		apps[i] = httpapi.AppStatus{
			AppID: int(v.App), Name: v.Name, Step: v.Step,
			MaxLimitID: v.Limit.MaxID, LimitPolicy: v.Limit.Policy,
			Issued: v.Issued, Refills: v.Refills, Held: v.Held, IssuedPerSecond: rates[v.App],
			HighestIndex: v.Highest, LeftShare: v.Left, Exhausted: v.Exhausted, Unconfirmed: v.Unconfirmed,
			Unused: v.Unused, Depths: v.Depths,
		}
	}
	s := a.queue.Stats()
	return &httpapi.QueueStatus{
		Issued: s.Issued, Pops: s.Pops, Refills: s.Refills, Held: s.Held, Wasted: s.Wasted(), Apps: apps,
	}
}

func (a *App) segmentViews() []httpapi.SegmentView {
	views := a.segment.Views()
	out := make([]httpapi.SegmentView, len(views))
	for i, v := range views {
		out[i] = segmentView(v)
	}
	return out
}

func segmentView(v segment.View) httpapi.SegmentView {
	b := v.Buffers
	return httpapi.SegmentView{
		Key: v.Name, InitOK: v.InitOK, NextReady: v.NextReady, Pos: v.Pos,
		Value0: b[0].Value, Step0: b[0].Step, Max0: b[0].Max,
		Value1: b[1].Value, Step1: b[1].Step, Max1: b[1].Max,
		Ahead: v.Ahead, Held: v.Held, Rate: v.Rate, RunwaySeconds: v.Runway, LastLoad: v.LastLoad,
	}
}

func (m *snowflakeMode) status() *httpapi.SnowflakeStatus {
	s := m.keeper.Status()
	return &httpapi.SnowflakeStatus{
		Issued: m.service.Stats().Issued, WorkerID: s.WorkerID, Mode: s.Mode, Address: s.Address, State: s.State,
		ReservedUntil: s.Reserved, TrustSeconds: s.Trust.Seconds(), ClockOffsetSeconds: s.ClockOffset.Seconds(),
		RemainingLifetimeSeconds: int64(m.generator.Remaining().Seconds()), Error: s.Error,
	}
}
