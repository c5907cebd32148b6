package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/repository/redisstore"
	"shardid/repository/sqlstore"
	"shardid/service/health"
	"shardid/service/httpapi"
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

// redisEmbedded is the redis.mode that keeps the lists in the process.
const redisEmbedded = "embedded"

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
	zoo, err := a.openZooKeeper()
	if err != nil {
		return err
	}
	a.monitor = health.New(a.log, append(zooKeeperProbe(zoo),
		health.Probe{Name: conditionDatabase, Check: a.checkDatabase},
		health.Probe{Name: conditionRedis, Check: lists.check})...)
	a.onStop("health", func(context.Context) error { a.monitor.Stop(); return nil })
	a.watch = newSettingsWatch(a.log, inspection{"database", a.db.Settings}, inspection{"redis", lists.settings})
	a.onStop("settings", func(context.Context) error { a.watch.Stop(); return nil })
	if a.queue, err = queue.New(queueOptions(a, lists)); err != nil {
		return err
	}
	a.onStop("queue", a.queue.Stop)
	if err := errors.Join(a.wireSegment(), a.wireUID(), a.wireSnowflake(zoo, lists.redis)); err != nil {
		return err
	}
	if err := a.wireAccess(); err != nil {
		return err
	}
	a.wireHistory()
	a.wireFleet()
	options, err := a.apiOptions()
	a.api = httpapi.New(options)
	return err
}

// checkDatabase is the database's probe, which also sends the heartbeats. Redis must know
// the deployment before it can vouch for the database.
func (a *App) checkDatabase(ctx context.Context) error {
	told := tellDeployment(ctx, a.db, a.redis)
	beat := a.db.Beat(ctx)
	return cmp.Or(a.db.Check(ctx), beat, told)
}

// tellDeployment tells Redis whose keys to use, as only the database knows it.
func tellDeployment(ctx context.Context, db *sqlstore.Store, client *redisstore.Store) error {
	if client == nil {
		return nil
	}
	id, err := db.Deployment(ctx)
	if err == nil {
		client.SetDeployment(id)
	}
	return err
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

// openDatabase opens the configured database, for which client vouches; it may be nil.
// log is told of rows that cannot be used; it may be nil.
func openDatabase(ctx context.Context, cfg Config, log *slog.Logger, client *redisstore.Store) (*sqlstore.Store, error) {
	secure, err := databaseTLS(cfg.Database)
	if err != nil {
		return nil, err
	}
	if err := checkEmbedded(ctx, cfg); err != nil {
		return nil, err
	}
	opts := sqlstore.Options{Driver: cfg.Database.Driver, DSN: cfg.DatabaseDSN(), ConnMaxLifetime: cfg.Database.ConnMaxLifetime, TLS: secure,
		ListRate: int64(cfg.Queue.MaxListRate), TagRate: int64(cfg.Segment.MaxRate)}
	if opts.Driver == sqlstore.MySQL {
		opts.MaxOpenConns = cfg.Database.MaxOpenConns
	}
	if client != nil {
		opts.Witness = client.Marks()
	}
	if log != nil {
		opts.OnBadRow = newBadRows(log).tell
		opts.OnServerChange = func(gap time.Duration, vouched bool) {
			log.Warn("the database was restarted, failed over or restored: what it may lack is left out, unless Redis vouches for it",
				"may_lack", gap.Round(time.Second).String(), "redis_vouches", vouched)
		}
	}
	return sqlstore.Open(ctx, opts)
}

// ownSchema brings the schema of an embedded database up to date: nobody else
// would. A server's schema is its operator's, by shardid migrate.
func ownSchema(ctx context.Context, cfg Config, db *sqlstore.Store) error {
	if cfg.Database.Driver != sqlstore.SQLite {
		return nil
	}
	return db.Migrate(ctx, func(string) {})
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

// openRedis gives nil for lists in the process.
func openRedis(cfg Config) (*redisstore.Store, error) {
	if cfg.Redis.Mode == redisEmbedded {
		return nil, nil
	}
	opts, err := redisOptions(cfg.Redis)
	if err != nil {
		return nil, err
	}
	return redisstore.New(opts)
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

func redisOptions(c RedisConfig) (redisstore.Options, error) {
	tlsConfig, err := redisTLS(c)
	return redisstore.Options{
		Mode: c.Mode, Addrs: c.Addrs, MasterName: c.MasterName,
		Username: c.Username, Password: c.Password,
		SentinelUsername: c.SentinelUsername, SentinelPassword: c.SentinelPassword,
		DB: c.DB, TLS: tlsConfig, PoolSize: c.PoolSize, UnsafeNoHistory: c.UnsafeNoHistory,
	}, err
}

// decoder knows the layouts and epochs of the configuration.
func decoder(cfg Config) model.Decoder {
	return model.Decoder{SnowflakeEpochMs: cfg.Snowflake.EpochMS, UID: uidLayout(cfg)}
}

// redisLog takes what go-redis writes by itself; the failures it tells of come
// back as errors too.
type redisLog struct{ log *slog.Logger }

// Printf implements go-redis' logger.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}
