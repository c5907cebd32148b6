package main

import (
	"context"

	"shardid/service/httpapi"
	"shardid/service/metrics"
)

// metrics shows the counters of what is enabled to Prometheus.
func (a *App) metrics() func(context.Context) ([]byte, error) {
	sources := metrics.Sources{
		Version: versionString(), UnsafeNoHistory: a.cfg.Redis.UnsafeNoHistory,
		Queue: a.queue.Stats, Apps: a.queue.Seen, Conditions: a.monitor.Conditions,
		Answers: func() map[int]int64 { return a.api.Answers() }, Traffic: a.traffic,
		Settings: a.watch.Findings, Stores: a.stores,
		Connections: func() metrics.Connections {
			return metrics.Connections{Open: a.connections.open.Load(), Refused: a.connections.refused.Load(), Failed: a.connections.failed.Load()}
		},
	}
	if a.segment != nil {
		sources.Segment = &metrics.Segment{Stats: a.segment.Stats, Views: a.segment.Views}
	}
	if a.snowflake != nil {
		sources.Snowflake = a.snowflakeSample
	}
	if a.uid != nil {
		sources.UID = a.uidSample
	}
	return metrics.Text(sources)
}

// traffic is that of the modes that are enabled.
func (a *App) traffic() map[string]metrics.Traffic {
	enabled := map[string]bool{
		httpapi.ModeQueue: true, httpapi.ModeSegment: a.segment != nil,
		httpapi.ModeSnowflake: a.snowflake != nil, httpapi.ModeUID: a.uid != nil,
	}
	all := map[string]metrics.Traffic{}
	for mode, t := range a.api.Traffic() {
		if enabled[mode] {
			all[mode] = metrics.Traffic(t)
		}
	}
	return all
}

func (a *App) snowflakeSample() metrics.Snowflake {
	m := a.snowflake
	return metrics.Snowflake{
		Stats: m.service.Stats(), Worker: m.keeper.Status(),
		MaxOffset: a.cfg.Snowflake.MaxClockOffset, Remaining: m.generator.Remaining(),
	}
}

func (a *App) uidSample() metrics.UID {
	return metrics.UID{Stats: a.uid.Stats(), Status: a.uid.Status()}
}
