package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
	_ "time/tzdata" // time_zone works on machines without the database of zones

	"shardid/model"
	"shardid/service/httpapi"
	"shardid/service/segment"
)

// apiOptions shows the modes that are enabled to the HTTP front end.
func (a *App) apiOptions() (httpapi.Options, error) {
	zone, err := time.LoadLocation(a.cfg.TimeZone)
	o := httpapi.Options{
		Queue: a.queue, Decoder: decoder(a.cfg), Conditions: a.monitor.Conditions, Log: a.log,
		Metrics: a.metrics(), MaxURLBytes: a.cfg.Server.MaxURLBytes,
		Status: a.status, History: a.history, Replicas: a.fleet.View, Location: zone,
		Access: a.access, RequireToken: a.cfg.Server.RequireToken, ProtectMonitoring: a.cfg.Server.ProtectMonitoring,
	}
	host, _, _ := net.SplitHostPort(a.cfg.Server.Addr) // is checked with the configuration
	o.Loopback = host != "" && httpapi.IsLoopback(host)
	if a.cfg.Server.TLSClientCAFile != "" {
		o.CheckClient = a.certificates.CheckClient
	}
	o.LogLevel, o.AccessLog = a.level, a.cfg.Log.Access
	o.Admin = a.admin()
	if a.tracer != nil {
		o.Tracer = a.tracer.Request
	}
	o.Modes = []httpapi.Mode{{Name: httpapi.ModeQueue, Ready: a.queueReady}}
	if a.segment != nil {
		o.Segment, o.Segments, o.Tags = a.segment, a.segment.Views, a.db.Tags
		o.Modes = append(o.Modes, httpapi.Mode{Name: httpapi.ModeSegment, Ready: a.segment.Ready})
	}
	if a.snowflake != nil {
		o.Snowflake = a.snowflake.service
		o.Modes = append(o.Modes, httpapi.Mode{Name: httpapi.ModeSnowflake, Ready: a.snowflake.keeper.Ready})
	}
	if a.uid != nil {
		o.UID = a.uid
		o.Modes = append(o.Modes, httpapi.Mode{Name: httpapi.ModeUID, Ready: a.uid.Ready})
	}
	return o, err
}

// queueReady is nil while the queue mode can serve any list, as far as is known.
func (a *App) queueReady() error {
	if err := a.queue.Ready(); err != nil {
		return err
	}
	if err := a.monitor.Err(conditionRedis); err != nil && !errors.Is(err, model.ErrPartlyAway) {
		return fmt.Errorf("the lists cannot be used: %w", err)
	}
	return nil
}

// startModes starts the modes beside the queue.
func (a *App) startModes(listens net.Addr) error {
	if a.segment != nil {
		a.segment.Start()
	}
	if a.uid != nil {
		a.uid.Start()
	}
	return a.startSnowflake(listens)
}

func (a *App) wireSegment() (err error) {
	s := a.cfg.Segment
	if !s.Enabled {
		return nil
	}
	a.segment, err = segment.New(segment.Options{
		Table: a.tracer.Table(storeDatabase, a.meterTable(a.db)), Reporter: a.monitor, Log: a.log,
		Timeout: s.Timeout, MaxStep: int64(s.MaxStep), Runway: s.Runway,
	})
	if err != nil {
		return err
	}
	a.onStop("segment", func(ctx context.Context) error { return a.segment.Stop(ctx) })
	return nil
}
