package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/uid"
	"shardid/service/worker"
)

// uidKeeper begins with the first ID that is asked for.
type uidKeeper struct {
	*worker.Keeper
	host string
}

// Need implements uid.Keeper.
func (k *uidKeeper) Need(ctx context.Context) {
	k.Start(k.host, rand.Text())
	k.Keeper.Need(ctx)
}

// wireUID builds Baidu's UidGenerator, and the keeper of its worker ID.
func (a *App) wireUID() error {
	c := a.cfg.UID
	if !c.Enabled {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	layout, now := uidLayout(a.cfg), idgen.SystemClock()
	_, workers := region(a.cfg).Workers(layout.WorkerBits)
	keeper := &uidKeeper{host: host}
	a.uid, err = uid.New(uid.Options{
		Mode: c.Mode, Layout: layout, Region: region(a.cfg), Timeout: a.cfg.Server.RequestTimeout,
		BoostPower: c.BoostPower, PaddingFactor: c.PaddingFactor, ScheduleInterval: c.ScheduleInterval,
		RejectPut: c.RejectPut, RejectTake: c.RejectTake,
		Keeper: keeper, Now: now,
		Idle: func() error { // nil when a first call could be served, as far as is known
			if err := a.monitor.Err(conditionDatabase); err != nil {
				return fmt.Errorf("%w: a worker ID cannot be had: %s: %w", model.ErrNotReady, conditionDatabase, err)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	keeper.Keeper = worker.New(worker.Options{
		Condition: uid.Condition, Mode: "node", Registry: a.db.Nodes(host, workers),
		Generator: a.uid, Reserve: a.uid.Reserve,
		Layout: func(ctx context.Context, _ bool) (time.Duration, bool, error) {
			err := a.recordLayout(ctx, uidRecord(a.cfg))
			return 0, err == nil, err
		},
		// The table is the only registry.
		// None of these bounds applies: a row is its owner's until another takes it over, above its mark.
		TTL: worker.Forever, Expiry: worker.Forever, MaxClockOffset: math.MaxInt64,
		Reporter: a.monitor, Log: a.log, Now: now,
	})
	a.issuer.UID = a.uid
	begin := func(net.Addr) {} // it begins with the first ID
	a.addMode(model.ModeUID, a.uid.Ready, begin, func(ctx context.Context) error {
		return errors.Join(keeper.Stop(ctx), a.uid.Stop(ctx))
	})
	return nil
}

func uidLayout(cfg Config) idgen.Layout {
	c := cfg.UID
	return model.UIDLayout(uint(c.TimeBits), uint(c.WorkerBits), uint(c.SeqBits), c.Epoch)
}

func uidRecord(cfg Config) model.LayoutRecord {
	return model.LayoutRecord{Kind: model.KindUID, Layout: model.UIDText(uidLayout(cfg)) + region(cfg).Suffix()}
}
