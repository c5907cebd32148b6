package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/sqlstore"
	"shardid/repository/zkstore"
	"shardid/service/observe"
	"shardid/service/snowflake"
	"shardid/service/uid"
	"shardid/service/worker"
)

// uidWorkerRegistry is the uid.worker that keeps an instance's worker ID.
const uidWorkerRegistry = "registry"

// wireUID builds Baidu's UidGenerator.
func (a *App) wireUID(zoo *zkstore.Store, lists *redisstore.Store) (err error) {
	c := a.cfg.UID
	if !c.Enabled {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	place, err := uid.FindPlace(host, os.LookupEnv, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if err != nil {
		return err
	}
	opts := uid.Options{
		Mode: c.Mode, Layout: uidLayout(a.cfg), Region: region(a.cfg), Place: place, Timeout: c.Timeout,
		BoostPower: c.BoostPower, PaddingFactor: c.PaddingFactor, ScheduleInterval: time.Duration(c.ScheduleInterval),
		RejectPut: c.RejectPut, RejectTake: c.RejectTake, FollowClock: c.FollowClock,
		RecordLayout: func(ctx context.Context) error { return a.recordLayout(ctx, uidRecord(a.cfg)) },
		Nodes:        a.stores.Nodes(observe.Database, a.db), Reporter: a.monitor, Log: a.log,
		Idle: a.uidIdle,
	}
	if c.Worker == uidWorkerRegistry {
		if a.uidRegistry, err = a.newUIDRegistry(zoo, lists); err != nil {
			return err
		}
		opts.Registry = a.uidRegistry
		a.onStop("uid registry", a.uidRegistry.keeper.Stop)
	}
	if a.uid, err = uid.New(opts); err != nil {
		return err
	}
	a.onStop("uid", func(ctx context.Context) error { return a.uid.Stop(ctx) })
	return nil
}

// uidIdle is nil when a first call of the UID mode could be served, as far as is known.
func (a *App) uidIdle() error {
	needs := []string{conditionDatabase}
	if a.uidRegistry != nil {
		switch a.cfg.Snowflake.Worker.Mode {
		case workerRedis:
			needs = append(needs, conditionRedis)
		case workerZK, workerZKRecycle, workerZKEphemeral:
			needs = append(needs, conditionZooKeeper)
		}
	}
	for _, name := range needs {
		if err := a.monitor.Err(name); err != nil {
			return fmt.Errorf("%w: a worker ID cannot be had: %s: %w", model.ErrNotReady, name, err)
		}
	}
	return nil
}

// uidRegistry is a registry of worker IDs as the UID mode uses it. All that bounds what is
// issued is in the database, in the row that the worker ID stands for; so the keeper needs
// no claims, and its generator does nothing.
type uidRegistry struct {
	keeper  *worker.Keeper
	name    string
	address string // of this instance; set before the mode is started
}

// uidRegistryName is no snowflake.name: those begin with a letter or digit.
func uidRegistryName(cfg Config) string { return "_uid." + cfg.Snowflake.Name }

func (a *App) newUIDRegistry(zoo *zkstore.Store, lists *redisstore.Store) (*uidRegistry, error) {
	name := uidRegistryName(a.cfg)
	opts := worker.Options{
		Condition: worker.ConditionUID, Generator: noGenerator{}, Now: snowflake.SystemClock(),
		Layout: func(context.Context, bool) (time.Duration, bool, error) { return 0, true, nil },
		Claim: func(context.Context, model.WorkerClaim) (model.ClaimGrant, error) {
			return model.ClaimGrant{Kept: math.MaxInt64}, nil
		},
	}
	workers := sqlstore.WorkersOptions{ReclaimMargin: a.cfg.Snowflake.MaxClockOffset, UID: true}
	layout := model.SnowflakeLayout{WorkerBits: model.LeafWorkerBits, SeqBits: model.LeafSeqBits} // 1024 places
	keeper, err := a.newKeeper(opts, name, layout, workers, zoo, lists)
	return &uidRegistry{keeper: keeper, name: a.cfg.Snowflake.Worker.Mode + " " + name}, err
}

func (r *uidRegistry) Start() { r.keeper.Start(r.address, rand.Text()) }

// Place does not look at the lease's After and Reserved, as UIDs are bound by the row.
func (r *uidRegistry) Place() (model.NodePlace, error) {
	s := r.keeper.Status()
	switch {
	case s.WorkerID < 0:
		return model.NodePlace{}, errors.New(cmp.Or(s.Error, "it is being asked"))
	case s.Trust == 0:
		return model.NodePlace{}, fmt.Errorf("worker ID %d of the registry was not renewed in time", s.WorkerID)
	}
	return model.NodePlace{Registry: r.name, WorkerID: s.WorkerID}, nil
}

type noGenerator struct{}

func (noGenerator) Begin(int, int64)            {}
func (noGenerator) Extend(int64, time.Duration) {}
func (noGenerator) End(error)                   {}
func (noGenerator) LastIssued() int64           { return 0 }

func uidLayout(cfg Config) model.UIDLayout {
	c := cfg.UID
	return model.UIDLayout{
		TimeBits: uint(c.TimeBits), WorkerBits: uint(c.WorkerBits), SeqBits: uint(c.SeqBits), Epoch: c.Epoch.Time,
	}
}

func uidRecord(cfg Config) model.LayoutRecord {
	return model.LayoutRecord{Kind: model.KindUID, Layout: uidLayout(cfg).String() + region(cfg).Suffix()}
}
