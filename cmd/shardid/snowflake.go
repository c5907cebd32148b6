package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/sqlstore"
	"shardid/repository/workerfile"
	"shardid/repository/zkstore"
	"shardid/service/monitor"
	"shardid/service/observe"
	"shardid/service/snowflake"
	"shardid/service/worker"
)

// Registries of worker IDs, snowflake.worker.mode.
const (
	workerZK          = zkstore.ModeForever
	workerZKRecycle   = zkstore.ModeRecycle
	workerZKEphemeral = zkstore.ModeEphemeral
	workerMySQL       = "mysql"
	workerRedis       = "redis"
	workerLocal       = workerfile.ModeLocal
	workerOrdinal     = workerfile.ModeOrdinal
)

// snowflakeMode is the snowflake mode as it is wired.
type snowflakeMode struct {
	generator *snowflake.Generator
	service   *snowflake.Service
	keeper    *worker.Keeper
}

// snowflakeLayout is the layout of the configuration.
func snowflakeLayout(cfg Config) model.SnowflakeLayout {
	s := cfg.Snowflake
	return model.SnowflakeLayout{EpochMs: s.EpochMS, WorkerBits: uint(s.WorkerBits), SeqBits: uint(s.SeqBits)}
}

// workersOptions are those of the worker IDs in the database.
func workersOptions(cfg Config) sqlstore.WorkersOptions {
	return sqlstore.WorkersOptions{ReclaimMargin: cfg.Snowflake.MaxClockOffset, Workers: snowflakeLayout(cfg).Workers()}
}

// openZooKeeper prepares the ensemble when the worker IDs come from it; nil
// otherwise.
func (a *App) openZooKeeper() (*zkstore.Store, error) {
	s := a.cfg.Snowflake
	switch s.Worker.Mode {
	case workerZK, workerZKRecycle, workerZKEphemeral:
	default:
		return nil, nil //nolint:nilnil // no store is needed
	}
	if !s.Enabled {
		return nil, nil //nolint:nilnil // as above
	}
	store, err := zkstore.New(zkstore.Options{
		Mode: s.Worker.Mode, Addrs: a.cfg.ZooKeeper.Addrs, Name: s.Name,
		SessionTimeout: a.cfg.ZooKeeper.SessionTimeout, ReclaimMargin: s.MaxClockOffset,
		Workers: snowflakeLayout(a.cfg).Workers(), Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	a.onStop("zookeeper", func(context.Context) error { return store.Close() })
	return store, nil
}

// zooKeeperProbe is nothing without an ensemble.
func zooKeeperProbe(store *zkstore.Store) []monitor.Probe {
	if store == nil {
		return nil
	}
	return []monitor.Probe{{Name: conditionZooKeeper, Check: store.Check}}
}

// wireSnowflake builds the generator and the keeper of its worker ID; the keeper is
// started once the address is known.
func (a *App) wireSnowflake(zoo *zkstore.Store, lists *redisstore.Store) (err error) {
	s := a.cfg.Snowflake
	if !s.Enabled {
		return nil
	}
	now := snowflake.SystemClock() // one for both, as they compare its readings
	m := &snowflakeMode{}
	layout := snowflakeLayout(a.cfg)
	m.generator, err = snowflake.New(snowflake.Options{
		EpochMs: layout.EpochMs, WorkerBits: layout.WorkerBits, SeqBits: layout.SeqBits,
		SequenceStart: s.SequenceStart, Tolerance: s.ClockTolerance, Now: now,
	})
	if err != nil {
		return err
	}
	m.service = snowflake.NewService(m.generator, s.Timeout, func() string { return m.keeper.Status().Error })
	opts := worker.Options{
		Mode: s.Worker.Mode, Generator: m.generator,
		Layout: a.snowflakeLayoutAge, Claim: a.db.ClaimWorker,
		Expiry: s.Worker.Expiry, TTL: s.Worker.Lease, MaxClockOffset: s.MaxClockOffset,
		Reporter: a.monitor, Log: a.log, Now: now,
	}
	if opts.Registry, err = a.registry(zoo, lists); err != nil {
		return err
	}
	switch s.Worker.Mode {
	case workerZKEphemeral:
		opts.TTL = a.cfg.ZooKeeper.SessionTimeout
	case workerRedis:
	case workerOrdinal:
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		ordinal := workerfile.Ordinal(host, layout.Workers())
		opts.Registry, opts.FileOnly = a.stores.Registry(observe.File, ordinal), true
		opts.OpenFile = func(address string) (worker.File, error) {
			o, err := a.workerFile(address)
			if err != nil {
				return nil, err
			}
			return ordinal.Open(o, worker.Ahead+s.MaxClockOffset)
		}
	default:
		opts.OpenFile, opts.FileOnly = a.openWorkerFile, s.Worker.Mode == workerLocal
	}
	if m.keeper, err = worker.New(opts); err != nil {
		return err
	}
	a.snowflake = m
	a.onStop("snowflake", m.keeper.Stop)
	return nil
}

// registry is what snowflake.worker.mode names, decorated; nil for ordinal.
func (a *App) registry(zoo *zkstore.Store, lists *redisstore.Store) (worker.Registry, error) {
	s, workers := a.cfg.Snowflake, snowflakeLayout(a.cfg).Workers()
	switch s.Worker.Mode {
	case workerMySQL:
		return a.stores.Registry(observe.Database, a.db.Workers(workersOptions(a.cfg))), nil
	case workerRedis:
		opts := redisstore.WorkersOptions{Name: s.Name, TTL: s.Worker.Lease, Acks: s.Worker.RedisAcks, Workers: workers}
		return a.stores.Registry(observe.Redis, lists.Workers(opts)), nil
	case workerOrdinal:
		return nil, nil //nolint:nilnil // it belongs together with its worker file
	case workerLocal:
		local, err := workerfile.Local(s.Worker.LocalMap, workers)
		return a.stores.Registry(observe.File, local), err
	default:
		return a.stores.Registry(observe.ZooKeeper, zoo), nil
	}
}

// openWorkerFile opens the worker file of an address.
func (a *App) openWorkerFile(address string) (worker.File, error) {
	o, err := a.workerFile(address)
	if err != nil {
		return nil, err
	}
	return workerfile.Open(o)
}

// workerFile says where the worker file of an address is: <data_dir>/<name>/<port>/worker.json.
func (a *App) workerFile(address string) (workerfile.Options, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return workerfile.Options{}, fmt.Errorf("read the address of this instance: %w", err)
	}
	return workerfile.Options{
		Dir:      filepath.Join(a.cfg.DataDir, a.cfg.Snowflake.Name, port),
		Registry: a.cfg.Snowflake.Worker.Mode, Address: address, Layout: snowflakeLayout(a.cfg),
	}, nil
}

// startSnowflake begins to look for a worker ID.
func (a *App) startSnowflake(listens net.Addr) error {
	if a.snowflake == nil {
		return nil
	}
	address, err := instanceAddress(a.cfg, listens)
	if err != nil {
		return err
	}
	a.snowflake.keeper.Start(address, rand.Text())
	return nil
}
