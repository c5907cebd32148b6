package main

import (
	"context"
	"fmt"
	"os"

	"shardid/service/observe"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
)

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
