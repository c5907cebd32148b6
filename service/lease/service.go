// Package lease leases worker IDs of names to holders that make IDs themselves. The store
// decides, in one transaction each, who may use which times; this package bounds the calls and
// counts.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// callTimeout bounds each call of the store.
const callTimeout = 5 * time.Second

// Store keeps the leases, by the rules that repository/sqlstore/leases.go has. Errors:
// model.ErrUnknownName, ErrNoWorkerID, ErrLeaseLost, ErrInvalidArgument, *model.StoreError.
type Store interface {
	GrantLease(ctx context.Context, name, instance string) (model.NameLease, error)
	RenewLease(ctx context.Context, key model.LeaseKey) (model.NameLease, error)
	ReleaseLease(ctx context.Context, key model.LeaseKey, lastUsed int64) error
}

// Service grants, renews and releases leases. Safe for concurrent use, over processes too.
type Service struct {
	store Store
	log   *slog.Logger

	noneFree   prometheus.Counter
	noneFreeOf atomic.Pointer[string]
}

// New makes a Service whose counter is in the registry, which may be nil.
func New(store Store, log *slog.Logger, registry prometheus.Registerer) *Service {
	return &Service{
		store: store, log: log,
		noneFree: metric.Counter(registry, "shardid_leases_none_free_total",
			"Leases that were refused because every worker ID of the name was leased."),
	}
}

// NoneFreeOf is the name whose worker IDs were all leased when one was asked for at last; "" for none.
func (s *Service) NoneFreeOf() string {
	if last := s.noneFreeOf.Load(); last != nil {
		return *last
	}
	return ""
}

// callStore runs a call of the store within callTimeout, and makes a failure of the store one that
// callers know.
func callStore[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := call(ctx)
	if _, ok := errors.AsType[*model.StoreError](err); ok {
		err = fmt.Errorf("%w: %w", model.ErrLeaseStore, err)
	}
	return got, err
}

// Grant leases a worker ID of a name to an instance, "" for one that does not say what it is
// called; by is who asks, for the log. A caller that goes away leaves a lease that ends by itself. Errors:
// model.ErrUnknownName, ErrInvalidArgument, ErrNoWorkerID, ErrLeaseStore, or that of ctx.
func (s *Service) Grant(ctx context.Context, by, name, instance string) (model.NameLease, error) {
	if err := model.CheckName(name); err != nil {
		return model.NameLease{}, err
	}
	if err := model.CheckInstance(instance); err != nil {
		return model.NameLease{}, err
	}
	lease, err := callStore(ctx, func(ctx context.Context) (model.NameLease, error) {
		return s.store.GrantLease(ctx, name, instance)
	})
	switch {
	case err == nil:
		s.log.Info("lease granted", "name", name, "worker_id", lease.WorkerID, "instance", instance,
			"after", lease.After, "until", lease.Until, "who", by)
	case errors.Is(err, model.ErrNoWorkerID):
		s.noneFreeOf.Store(&name)
		s.noneFree.Inc()
		s.log.Warn("no worker ID is free", "name", name, "error", err)
	}
	return lease, err
}

// Renew makes a lease longer. Errors: model.ErrUnknownName, ErrLeaseLost, ErrLeaseStore, or that of
// ctx; after the last two the lease may be longer than its holder knows.
func (s *Service) Renew(ctx context.Context, key model.LeaseKey) (model.NameLease, error) {
	return callStore(ctx, func(ctx context.Context) (model.NameLease, error) {
		return s.store.RenewLease(ctx, key)
	})
}

// Release ends a lease whose holder issues nothing more and has used no time after lastUsed,
// Unix ms, 0 for one that does not say. Errors: model.ErrLeaseLost, also when it was released
// before; ErrInvalidArgument, ErrLeaseStore, or that of ctx.
func (s *Service) Release(ctx context.Context, by string, key model.LeaseKey, lastUsed int64) error {
	_, err := callStore(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.store.ReleaseLease(ctx, key, lastUsed)
	})
	if err == nil {
		s.log.Info("lease released", "name", key.Name, "worker_id", key.WorkerID, "last_used", lastUsed, "who", by)
	}
	return err
}
