package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
	_ "time/tzdata" // time_zone works on machines without the database of zones

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/observe"
	"shardid/service/segment"
)

// modes are the names of all four, in their usual order.
func modes() []string {
	return []string{httpapi.ModeQueue, httpapi.ModeSegment, httpapi.ModeSnowflake, httpapi.ModeUID}
}

// apiOptions shows the modes that are enabled to the HTTP front end.
func (a *App) apiOptions() (httpapi.Options, error) {
	zone, err := time.LoadLocation(a.cfg.TimeZone)
	a.issuer = &issuer.Issuer{Queue: a.queue}
	o := httpapi.Options{
		Issuer:  a.issuer,
		Decoder: decoder(a.cfg), Conditions: a.monitor.Conditions, Log: a.log,
		Metrics: a.metrics(), MaxURLBytes: a.cfg.Server.MaxURLBytes,
		Status: a.status, History: a.monitor, Replicas: a.replicas.View, Location: zone,
		Access: a.access, RequireToken: a.cfg.Server.RequireToken, ProtectMonitoring: a.cfg.Server.ProtectMonitoring,
		Unsent: a.unsent,
	}
	if a.cfg.Server.RequireToken {
		o.Known = know
	}
	o.Hosts = hosts(a.cfg.Server.Addr, a.cfg)
	if a.cfg.Server.TLSClientCAFile != "" {
		o.CheckClient = a.certificates.CheckClient
	}
	o.OldSchema = func() bool { return sqlstore.LacksSchema(a.monitor.Err(conditionDatabase)) }
	o.LogLevel, o.AccessLog = a.level, a.cfg.Log.Access
	o.Admin = a.admin()
	o.Decoder.Scramble = a.queue.Scramble
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
	if err := a.startWorkers(listens); err != nil {
		return err
	}
	if a.uid != nil {
		a.uid.Start()
	}
	return nil
}

func (a *App) wireSegment() (err error) {
	s := a.cfg.Segment
	if !s.Enabled {
		return nil
	}
	a.segment, err = segment.New(segment.Options{
		Table: a.stores.Table(observe.Database, a.db), Reporter: a.monitor, Log: a.log,
		Timeout: s.Timeout, MaxStep: int64(s.MaxStep), Preload: s.Preload, Runway: s.Runway,
	})
	if err != nil {
		return err
	}
	a.onStop("segment", func(ctx context.Context) error { return a.segment.Stop(ctx) })
	return nil
}

// admin is the administration over HTTP. It has this replica's modes take changes over,
// and its lines are in the log whatever its level is.
func (a *App) admin() *admin.Service {
	opts := admin.Options{Store: a.db, Log: a.log, Queue: a.queue,
		ListRate: int64(a.cfg.Queue.MaxListRate), TagRate: int64(a.cfg.Segment.MaxRate)}
	if a.level != nil {
		opts.Log = a.level.audit
	}
	if a.segment != nil {
		opts.Segment = a.segment
	}
	return admin.New(opts)
}

// layoutTimeout bounds the question at the start; a database that is away is asked
// again by the modes themselves.
const layoutTimeout = 3 * time.Second

// snowflakeRecord is what the database remembers of snowflake IDs.
func snowflakeRecord(cfg Config) model.LayoutRecord {
	return model.LayoutRecord{Kind: model.KindSnowflake, Layout: snowflakeLayout(cfg).String()}
}

// checkLayouts refuses a start whose IDs could equal ones that were issued with
// another layout or epoch.
func (a *App) checkLayouts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	var changed *model.LayoutChangedError
	for record, enabled := range map[model.LayoutRecord]bool{
		snowflakeRecord(a.cfg): a.cfg.Snowflake.Enabled,
		uidRecord(a.cfg):       a.cfg.UID.Enabled,
	} {
		if !enabled {
			continue
		}
		if _, err := a.db.HasLayout(ctx, record); errors.As(err, &changed) {
			return changed
		}
	}
	return nil
}

// recordLayout remembers the layout for ever. One that is not the recorded one ends
// the process, as it would have ended the start if the database had answered then.
func (a *App) recordLayout(ctx context.Context, record model.LayoutRecord) error {
	_, err := a.db.LayoutOnce(ctx, record)
	return a.layoutFails(err)
}

func (a *App) layoutFails(err error) error {
	if errors.Is(err, model.ErrLayoutChanged) {
		select {
		case a.failed <- err:
		default: // it is ending already
		}
	}
	return err
}

// snowflakeLayoutKnown says whether snowflake IDs may have been issued, and for how long;
// with record they may be from now on.
func (a *App) snowflakeLayoutKnown(ctx context.Context, record bool) (age time.Duration, recorded bool, err error) {
	want := snowflakeRecord(a.cfg)
	if record {
		recorded, err = true, a.recordLayout(ctx, want)
	} else {
		recorded, err = a.db.HasLayout(ctx, want)
	}
	if err != nil || !recorded {
		return 0, false, a.layoutFails(err)
	}
	age, err = a.db.LayoutAge(ctx, model.KindSnowflake)
	return age, err == nil, err
}
