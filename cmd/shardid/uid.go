package main

import (
	"context"
	"os"
	"time"

	"shardid/model"
	"shardid/service/uid"
)

// wireUID builds Baidu's UidGenerator.
func (a *App) wireUID() (err error) {
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
		Mode: c.Mode, Layout: uidLayout(a.cfg), Place: place, Timeout: c.Timeout,
		BoostPower: c.BoostPower, PaddingFactor: c.PaddingFactor, ScheduleInterval: time.Duration(c.ScheduleInterval),
		RejectPut: c.RejectPut, RejectTake: c.RejectTake, FollowClock: c.FollowClock,
		Nodes: a.tracer.Nodes(storeDatabase, a.meterNodes(uidNodes{a})), Reporter: a.monitor, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.onStop("uid", func(ctx context.Context) error { return a.uid.Stop(ctx) })
	return nil
}

// uidNodes registers no node before the layout is known to be that of all IDs.
type uidNodes struct{ *App }

// RegisterNode implements uid.Nodes.
func (n uidNodes) RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error) {
	if err := n.recordLayout(ctx, uidRecord(n.cfg)); err != nil {
		return model.Node{}, err
	}
	return n.db.RegisterNode(ctx, start)
}

// MarkNode implements uid.Nodes.
func (n uidNodes) MarkNode(ctx context.Context, node model.Node, until int64) error {
	return n.db.MarkNode(ctx, node, until)
}

func uidLayout(cfg Config) model.UIDLayout {
	c := cfg.UID
	return model.UIDLayout{
		TimeBits: uint(c.TimeBits), WorkerBits: uint(c.WorkerBits), SeqBits: uint(c.SeqBits), Epoch: c.Epoch.Time,
	}
}

func uidRecord(cfg Config) model.LayoutRecord {
	return model.LayoutRecord{Kind: model.KindUID, Layout: uidLayout(cfg).String()}
}
