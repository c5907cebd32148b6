package main

import (
	"context"
	"fmt"
	"net"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/repository/sqlstore"
	"shardid/service/access"
	"shardid/service/httpapi"
	"shardid/service/sequence"
)

// errNoRedis is why a deployment has no sequences: replicas that share nothing but a database
// server would have to ask it for each number.
var errNoRedis = fmt.Errorf("%w: sequences need Redis, which all replicas share: set redis.url", model.ErrModeDisabled)

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
	}
	if a.redis != nil {
		s := a.redis.Sequences()
		o.Store, a.forgetSpace = s, s.Forget
		o.Prepare = func(ctx context.Context) error { return tellDeployment(ctx, a.db, a.redis) }
	} else {
		s := memstore.NewSequences()
		o.Store, a.forgetSpace = s, s.Forget
		o.Prepare = func(context.Context) error { return nil }
	}
	a.sequence = sequence.New(o)
	a.issuer.Sequence = a.sequence
	a.addMode(httpapi.ModeSequence, access.Sequence, a.sequenceReady, func(net.Addr) { a.sequence.Start() },
		a.sequence.Stop)
}
