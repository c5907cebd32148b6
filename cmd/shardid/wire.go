package main

import (
	"cmp"
	"context"
	"errors"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/repository/redisstore"
	"shardid/service/access"
	"shardid/service/httpapi"
	"shardid/service/monitor"
	"shardid/service/observe"
	"shardid/service/queue"

	"github.com/redis/go-redis/v9"
)

// The names under which the stores are probed.
const (
	conditionDatabase  = "database"
	conditionRedis     = "redis"
	conditionZooKeeper = "zookeeper"
)

// wire picks the stores that the configuration names and builds the service on
// them. It is the only place that knows which store is behind which interface.
func (a *App) wire() (err error) {
	if err := a.wireObserve(); err != nil {
		return err
	}
	client, err := openRedis(a.cfg)
	if err != nil {
		return err
	}
	if client != nil {
		redis.SetLogger(redisLog{a.log})
		a.redis = client
		a.onStop("redis", func(context.Context) error { return client.Close() })
	}
	if a.db, err = openDatabase(context.Background(), a.cfg, a.log, client); err != nil {
		return err
	}
	a.onStop("database", func(context.Context) error { return a.db.Close() })
	lists := a.openLists(client)
	zoo, err := a.openZooKeeper(a.cfg.Snowflake.Name, snowflakeLayout(a.cfg).Workers(), a.cfg.Snowflake.Enabled)
	if err != nil {
		return err
	}
	uidZoo, err := a.openZooKeeper(uidRegistryName(a.cfg), model.SnowflakeWorkers, a.cfg.UID.Enabled && a.cfg.UID.Worker == uidWorkerRegistry)
	if err != nil {
		return err
	}
	a.monitor = monitor.New(a.log, a.snapshot, append(zooKeeperProbe(cmp.Or(zoo, uidZoo)),
		monitor.Probe{Name: conditionDatabase, Check: a.checkDatabase},
		monitor.Probe{Name: conditionRedis, Check: lists.check})...)
	a.onStop("monitor", a.monitor.Stop)
	a.watch = newSettingsWatch(a.log, inspection{"database", a.db.Settings}, inspection{"redis", lists.settings})
	a.onStop("settings", func(context.Context) error { a.watch.Stop(); return nil })
	if a.queue, err = queue.New(queueOptions(a, lists)); err != nil {
		return err
	}
	a.onStop("queue", a.queue.Stop)
	if err := errors.Join(a.wireSegment(), a.wireUID(uidZoo, lists.redis), a.wireSnowflake(zoo, lists.redis)); err != nil {
		return err
	}
	if err := a.wireAccess(); err != nil {
		return err
	}
	a.wireReplicas()
	options, err := a.apiOptions()
	a.api = httpapi.New(options)
	return err
}

// checkDatabase is the database's probe, which also sends the heartbeats. Redis must know
// the deployment before it can vouch for the database. After a change of the server the queue
// reads the apps again, and learns which lists await an operator's word before a caller does.
func (a *App) checkDatabase(ctx context.Context) error {
	told := tellDeployment(ctx, a.db, a.redis)
	beat := a.db.Beat(ctx)
	if n := a.db.Changes(); n != a.changes && a.queue.Reload(ctx) == nil {
		a.changes = n
	}
	return cmp.Or(a.db.Check(ctx), beat, told)
}

func queueOptions(a *App, lists listStore) queue.Options {
	q, store := a.cfg.Queue, observe.Redis
	if lists.redis == nil {
		store = observe.Memory
	}
	o := queue.Options{
		Lists: a.stores.Lists(store, lists), Locker: a.stores.Locker(store, lists),
		Allocator: a.stores.Allocator(observe.Database, a.db), Catalogue: a.stores.Catalogue(observe.Database, a.db),
		Reporter: a.monitor, Log: a.log, Probe: lists.ready,
		Timeout: q.Timeout, LowWatermark: q.LowWatermark, PrefetchMax: q.PrefetchMax,
		MaxStep: int64(q.MaxStep), LiftAlarm: int64(q.LiftAlarm),
		RefillCron: q.RefillCron, ReloadCron: q.ReloadCron,
	}
	if a.tracer != nil {
		o.Observe = a.tracer.Refill
	}
	return o
}

// listStore is a store of lists and locks with its probe and its settings.
type listStore struct {
	queue.Lists
	queue.Locker
	redis    *redisstore.Store // nil for the embedded one
	check    func(context.Context) error
	ready    func(context.Context) error // gates the start of the queue
	settings func(context.Context) ([]model.Finding, error)
}

func (a *App) openLists(client *redisstore.Store) listStore {
	if client == nil {
		s, restored := memstore.New(), false
		a.onStop("lists", func(ctx context.Context) error { return a.db.KeepLeftovers(ctx, s.Drain()) })
		ready := func(ctx context.Context) error {
			if restored {
				return nil
			}
			left, err := a.db.TakeLeftovers(ctx)
			if err != nil {
				return err
			}
			restored = true
			return s.Restore(left)
		}
		return listStore{s, s, nil, func(context.Context) error { return nil }, ready, embeddedLists}
	}
	ready := func(ctx context.Context) error {
		if err := client.Check(ctx); err != nil {
			return err
		}
		return tellDeployment(ctx, a.db, client)
	}
	return listStore{client, client, client, client.Check, ready, client.Settings}
}

// decoder knows the layouts and epochs of the configuration.
func decoder(cfg Config) model.Decoder {
	return model.Decoder{Snowflake: snowflakeLayout(cfg), UID: uidLayout(cfg)}
}

// Names of the conditions of what is read again when its files change.
const (
	conditionTokens = "tokens"
	conditionTLS    = "tls"
)

// wireAccess reads the tokens and the certificates.
func (a *App) wireAccess() (err error) {
	s := a.cfg.Server
	a.access, err = access.NewGuard(access.Options{
		AdminToken: s.AdminToken, File: s.TokensFile,
		Report: func(err error) { a.monitor.Report(conditionTokens, err) }, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.onStop(conditionTokens, a.access.Stop)
	if s.TLSCertFile == "" {
		return nil
	}
	a.certificates, err = access.NewCertificates(
		access.CertificateFiles{Cert: s.TLSCertFile, Key: s.TLSKeyFile, ClientCA: s.TLSClientCAFile},
		func(err error) { a.monitor.Report(conditionTLS, err) })
	if err != nil {
		return err
	}
	a.onStop(conditionTLS, a.certificates.Stop)
	return nil
}

// startAccess keeps them up to date.
func (a *App) startAccess() {
	a.access.Start()
	if a.certificates != nil {
		a.certificates.Start()
	}
}
