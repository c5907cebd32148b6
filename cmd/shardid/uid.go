package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"shardid/model"
	"shardid/service/uid"
)

// wireUID builds Baidu's UidGenerator.
func (a *App) wireUID() error {
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
	a.uid, err = uid.New(uid.Options{
		Mode: c.Mode, Layout: uidLayout(a.cfg), Region: region(a.cfg), Place: place, Timeout: c.Timeout,
		BoostPower: c.BoostPower, PaddingFactor: c.PaddingFactor, ScheduleInterval: time.Duration(c.ScheduleInterval),
		RejectPut: c.RejectPut, RejectTake: c.RejectTake,
		RecordLayout: func(ctx context.Context) error { return a.recordLayout(ctx, uidRecord(a.cfg)) },
		Nodes:        a.db, Reporter: a.monitor, Log: a.log,
		Idle: a.uidIdle,
	})
	if err != nil {
		return err
	}
	a.onStop("uid", func(ctx context.Context) error { return a.uid.Stop(ctx) })
	return nil
}

// uidIdle is nil when a first call of the UID mode could be served, as far as is known.
func (a *App) uidIdle() error {
	if err := a.monitor.Err(conditionDatabase); err != nil {
		return fmt.Errorf("%w: a worker ID cannot be had: %s: %w", model.ErrNotReady, conditionDatabase, err)
	}
	return nil
}

func uidLayout(cfg Config) model.UIDLayout {
	c := cfg.UID
	return model.UIDLayout{
		TimeBits: uint(c.TimeBits), WorkerBits: uint(c.WorkerBits), SeqBits: uint(c.SeqBits), Epoch: c.Epoch.Time,
	}
}

func uidRecord(cfg Config) model.LayoutRecord {
	return model.LayoutRecord{Kind: model.KindUID, Layout: uidLayout(cfg).String() + region(cfg).Suffix()}
}
