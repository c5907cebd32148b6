package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
	_ "time/tzdata" // TZ works on machines without the database of zones

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/repository/sqlstore"
	"shardid/service/access"
	"shardid/service/admin"
	"shardid/service/httpapi"
	"shardid/service/issuer"
	"shardid/service/monitor"
	"shardid/service/observe"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/sequence"

	"github.com/redis/go-redis/v9"
)

// The names under which the stores are probed.
const (
	conditionDatabase  = "database"
	conditionRedis     = "redis"
	conditionZooKeeper = "zookeeper"
)

// wire picks the stores that the configuration names and builds the service on
// them. This file, snowflake.go, uid.go and stores.go know which store is behind which interface.
func (a *App) wire() (err error) {
	// What watches the stores comes before them, so that it is stopped after them.
	if a.tracer, err = observe.StartTracer(versionString(), a.log); err != nil {
		return err
	}
	if a.tracer != nil {
		a.onStop("tracing", a.tracer.Stop)
	}
	a.stores = observe.NewStores(a.tracer, a.registry)
	client, err := openRedis(a.cfg, a.stores.Observe)
	if err != nil {
		return err
	}
	if client != nil {
		redis.SetLogger(redisLog{a.log})
		a.redis = client
		a.onStop("redis", func(context.Context) error { return client.Close() })
	}
	if a.db, err = openDatabase(context.Background(), a.cfg, true, a.log, client, a.stores.Observe); err != nil {
		return err
	}
	a.onStop("database", func(context.Context) error { return a.db.Close() })
	if a.cfg.Database.Driver == sqlstore.SQLite {
		a.log.Warn("set database.driver to mysql, and redis.url, for more than one replica: with this state a second "+
			"one, with another folder or on another machine, issues the same IDs",
			"database", a.cfg.DatabaseDSN())
	}
	zoo, probes, err := a.openZooKeeper()
	if err != nil {
		return err
	}
	probes = append(probes, monitor.Probe{Name: conditionDatabase, Check: a.checkDatabase})
	inspections := []inspection{{"database", a.db.Settings}}
	if client != nil {
		probes = append(probes, monitor.Probe{Name: conditionRedis, Check: client.Check})
		inspections = append(inspections, inspection{"redis", client.Settings})
	}
	a.monitor = monitor.New(a.log, a.registry, a.state, probes...)
	a.registry.MustRegister(a.monitor)
	a.onStop("monitor", a.monitor.Stop)
	a.watch = newSettingsWatch(a.log, inspections...)
	a.onStop("settings", func(ctx context.Context) error { return a.watch.Stop(ctx, nil) })
	if err := a.wireQueue(); err != nil {
		return err
	}
	a.wireSegment()
	if err := errors.Join(a.wireSnowflake(zoo), a.wireUID()); err != nil {
		return err
	}
	a.wireSequence()
	if a.access, a.certificates, err = openAccess(a.cfg.Server, a.log, a.monitor.Report); err != nil {
		return err
	}
	a.onStop(conditionTokens, a.access.Stop)
	if a.certificates != nil {
		a.onStop(conditionTLS, a.certificates.Stop)
	}
	var records monitor.RecordStore
	if client != nil {
		records = client.Replicas()
	}
	a.replicas = monitor.NewReplicas(records, a.monitor.Record)
	a.onStop("replicas", a.replicas.Stop)
	a.api = httpapi.New(a.apiOptions())
	return nil
}

// checkDatabase is the database's probe, which also sends the heartbeats. Redis must know
// the deployment before it can vouch for the database. After a change of the server the queue
// reads the apps again, and learns which lists await an operator's word before a caller does.
func (a *App) checkDatabase(ctx context.Context) error {
	told := tellDeployment(ctx, a.db, a.redis)
	beat := a.layoutFails(a.db.Beat(ctx)) // of another region
	if n := a.db.Changes(); n != a.changes {
		within, cancel := context.WithTimeout(ctx, 2*time.Second) // of 3; reloads that failed have pauses
		if a.queue.Reload(within) == nil {
			a.changes = n
		}
		cancel()
	}
	if cmp.Or(beat, told) == nil && a.cfg.Database.Driver == sqlstore.MySQL && time.Since(a.checked) < checkEvery {
		return nil
	}
	err := cmp.Or(a.db.Check(ctx), beat, told)
	if err == nil {
		a.checked = time.Now()
	}
	return err
}

// checkEvery is how often the tables of a server are looked at while heartbeats arrive.
const checkEvery = 10 * time.Second

// wireQueue builds the queue mode, whose lists are in Redis or in this process, and the leases beside it.
func (a *App) wireQueue() (err error) {
	q := a.cfg.Queue
	o := queue.Options{
		Allocator: a.db, Catalogue: a.db, Reporter: a.monitor, Log: a.log,
		Timeout: a.cfg.Server.RequestTimeout, PrefetchMax: q.PrefetchMax, MaxStep: 100_000,
		RefillCron: q.RefillCron, ReloadCron: q.ReloadCron, Region: region(a.cfg), Registry: a.registry,
		Probe: func(ctx context.Context) error {
			if a.redis == nil {
				return nil
			}
			if err := a.redis.Check(ctx); err != nil {
				return err
			}
			return tellDeployment(ctx, a.db, a.redis)
		},
	}
	if a.redis != nil {
		o.Lists = a.redis
	} else {
		o.Lists = memstore.New()
	}
	if a.queue, err = queue.New(o); err != nil {
		return err
	}
	a.issuer = &issuer.Issuer{Queue: a.queue, Region: region(a.cfg)}
	a.addMode(model.ModeQueue, a.queueReady, func(net.Addr) { a.queue.Start() }, a.queue.Stop)
	return nil
}

// region is that of the configuration.
func region(cfg Config) model.Region {
	return model.Region{ID: cfg.Region.ID, Bits: uint(cfg.Region.Bits)}
}

// decoder knows the layouts and epochs of the configuration.
func decoder(cfg Config) model.Decoder {
	return model.Decoder{Snowflake: snowflakeLayout(cfg), UID: uidLayout(cfg), Region: region(cfg)}
}

// Names of the conditions of what is read again when its files change.
const (
	conditionTokens = "tokens"
	conditionTLS    = "tls"
)

// openAccess reads the tokens and the certificates, which are nil without TLS. report is told later how that went
// when the files changed.
func openAccess(
	s ServerConfig, log *slog.Logger, report func(condition string, err error),
) (tokens *access.Guard, certificates *access.Certificates, err error) {
	tokens, err = access.NewGuard(access.Options{AdminToken: s.AdminToken, File: s.TokensFile, Log: log,
		Report: func(err error) { report(conditionTokens, err) }})
	if s.TLSCertFile == "" {
		return tokens, nil, err
	}
	certificates, failed := access.NewCertificates(
		access.CertificateFiles{Cert: s.TLSCertFile, Key: s.TLSKeyFile, ClientCA: s.TLSClientCAFile},
		func(err error) { report(conditionTLS, err) })
	return tokens, certificates, errors.Join(err, failed)
}

// mode is a way of issuing IDs that is enabled, as the counters and the start see it.
type mode struct {
	model.Mode
	start func(listens net.Addr)
}

// addMode adds a mode to those that are started and served, in this order, and stopped in the reverse one.
func (a *App) addMode(
	m model.Mode, ready func() error, start func(net.Addr), stop func(context.Context) error,
) {
	a.modes = append(a.modes, mode{m, start})
	a.monitor.AddMode(m.String(), ready)
	a.onStop(m.String(), stop)
}

// apiOptions shows the modes that are enabled to the HTTP front end.
func (a *App) apiOptions() httpapi.Options {
	o := httpapi.Options{
		Issuer: a.issuer, Leases: a.db, Decoder: decoder(a.cfg), Monitor: a.monitor, Log: a.log,
		Registry: a.registry,
		Reads: httpapi.Reads{Metrics: observe.Gatherer(a.registry, a.state, a.uidStatus), Replicas: a.replicas.View,
			History: a.replicas.History},
		Access: a.access, RequireToken: a.cfg.Server.RequireToken, ProtectMonitoring: a.cfg.Server.ProtectMonitoring,
		OwnHosts: ownHosts(a.cfg.Server),
	}
	o.LogLevel, o.LogRequests = a.level, a.cfg.Log.Access == "all"
	things := a.admin()
	o.Admin, o.Names, o.Spaces = things.Resources(), things.Names().List, things.Spaces().List
	o.Decoder.Scramble = a.queue.Scramble
	if a.tracer != nil {
		o.Tracer = a.tracer
	}
	if a.segment != nil {
		o.Segments, o.Tags = a.segment, a.db.FindTags
	}
	counted := []model.Mode{model.ModeLease}
	for _, m := range a.modes {
		counted = append(counted, m.Mode)
	}
	a.issuer.Traffic = issuer.NewTraffic(a.registry, counted...)
	return o
}

// ownHosts says whether a page of another site, whose name was made to lead to this machine, would be served: on the
// loopback, where everybody may ask. With TLS a browser asks only a server that has proved to be of the page's site.
func ownHosts(s ServerConfig) bool {
	listens, err := net.ResolveTCPAddr("tcp", s.Addr)
	return err == nil && listens.IP.IsLoopback() && !s.RequireToken && s.TLSCertFile == ""
}

// queueReady is nil while the queue mode can serve any list, as far as is known.
func (a *App) queueReady() error {
	if err := a.queue.Ready(); err != nil {
		return err
	}
	if err := a.redisAway(); err != nil {
		return fmt.Errorf("the lists cannot be used: %w", err)
	}
	return nil
}

// redisAway says why the store of lists and sequences cannot be used; nil while a part of it can.
func (a *App) redisAway() error {
	err := a.monitor.Err(conditionRedis)
	if a.redis == nil || errors.Is(err, model.ErrPartlyAway) {
		return nil
	}
	return err
}

// sequenceReady is nil while numbers of sequences may be had, as far as is known. Without the database that
// is until the leases end, and then sections that are asked fail.
func (a *App) sequenceReady() error {
	if err := a.sequence.Ready(); err != nil {
		return err
	}
	err := a.redisAway()
	if err == nil && a.monitor.Err(sequence.Condition) != nil {
		err = a.monitor.Err(conditionDatabase)
	}
	if err != nil {
		return fmt.Errorf("sequences cannot continue: %w", err)
	}
	return nil
}

func (a *App) wireSegment() {
	s := a.cfg.Segment
	if !s.Enabled {
		return
	}
	a.segment = segment.New(segment.Options{
		Table: a.db, Reporter: a.monitor, Log: a.log,
		Timeout: a.cfg.Server.RequestTimeout, Runway: s.Runway, Region: region(a.cfg), Registry: a.registry,
	})
	a.issuer.Segment = a.segment
	a.addMode(model.ModeSegment, a.segment.Ready, func(net.Addr) { a.segment.Start() }, a.segment.Stop)
}

// errNoRedis is why a deployment has no sequences: replicas that share nothing but a database
// server would have to ask it for each number.
var errNoRedis = fmt.Errorf("%w: %w: sequences need a Redis that all replicas share", model.Do("set redis.url"),
	model.ErrModeDisabled)

func (a *App) wireSequence() {
	switch {
	case !a.cfg.Sequence.Enabled:
		return
	case a.redis == nil && a.cfg.Database.Driver != sqlstore.SQLite:
		a.issuer.NoSequence = errNoRedis
		return
	}
	o := sequence.Options{
		Allocator: a.db, Reporter: a.monitor, Log: a.log, Timeout: a.cfg.Server.RequestTimeout,
		Registry: a.registry, Alone: a.cfg.Database.Driver == sqlstore.SQLite,
		Prepare: func(ctx context.Context) error { return tellDeployment(ctx, a.db, a.redis) },
	}
	if a.redis != nil {
		s := a.redis.Sequences()
		o.Store, a.forgetSpace = s, s.Forget
	} else {
		s := memstore.NewSequences()
		o.Store, a.forgetSpace = s, s.Forget
	}
	a.sequence = sequence.New(o)
	a.issuer.Sequence = a.sequence
	a.addMode(model.ModeSequence, a.sequenceReady, func(net.Addr) { a.sequence.Start() }, a.sequence.Stop)
}

// admin is the administration over HTTP. It has this replica's modes take changes over,
// and its lines are in the log whatever its level is.
func (a *App) admin() *admin.Service {
	opts := adminOptions(a.cfg, a.db, a.log)
	opts.Forget = a.forgetSpace
	opts.Queue = admin.Replica{NextReload: a.queue.NextReload,
		Reload: func(ctx context.Context, _ string) error { return a.queue.Reload(ctx) }}
	if a.level != nil {
		opts.Log = a.level.Audit
	}
	if a.segment != nil {
		opts.Segment = admin.Replica{Reload: a.segment.Reload, NextReload: a.segment.NextReload}
	}
	return admin.New(opts)
}

// adminOptions are those of every administration of a database.
func adminOptions(cfg Config, db *sqlstore.Store, log *slog.Logger) admin.Options {
	return admin.Options{Store: db, Log: log, OwnName: cfg.Snowflake.Name, Region: region(cfg)}
}

// layoutTimeout bounds the question at the start; a database that is unreachable is asked
// again by the modes themselves.
const layoutTimeout = 3 * time.Second

// snowflakeRecord is what the database remembers of snowflake IDs.
func snowflakeRecord(cfg Config) model.LayoutRecord {
	text := model.SnowflakeText(snowflakeLayout(cfg)) + region(cfg).Suffix()
	return model.LayoutRecord{Kind: model.KindSnowflake, Layout: text}
}

// checkLayouts refuses a start whose IDs could equal ones that were issued with
// another layout or epoch. It tells Redis the deployment, so that the first caller is served.
func (a *App) checkLayouts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	_ = tellDeployment(ctx, a.db, a.redis) // the probe of the database does so when this one cannot
	err := a.db.CheckRegion(ctx)
	if moved, is := errors.AsType[*sqlstore.MovedError](err); is {
		return fmt.Errorf("%w; or begin afresh, with IDs from 1 on, after rm -r %s", moved,
			strings.TrimSpace(a.cfg.DataDir+" "+a.cfg.Database.DSN))
	}
	if errors.Is(err, model.ErrLayoutChanged) {
		return err
	}
	for record, enabled := range map[model.LayoutRecord]bool{
		snowflakeRecord(a.cfg): a.cfg.Snowflake.Enabled,
		uidRecord(a.cfg):       a.cfg.UID.Enabled,
	} {
		if !enabled {
			continue
		}
		if _, err := a.db.HasLayout(ctx, record); errors.Is(err, model.ErrLayoutChanged) {
			return err
		}
	}
	return nil
}

// recordLayout remembers the layout for ever. One that is not the recorded one ends
// the process, as it would have ended the start if the database had answered then.
func (a *App) recordLayout(ctx context.Context, record model.LayoutRecord) error {
	return a.layoutFails(a.db.LayoutOnce(ctx, record))
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
