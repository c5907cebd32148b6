// Package lease leases worker IDs of names to holders that make IDs themselves. The store
// decides, in one transaction each, who may use which times; this package bounds the calls,
// renews together what arrives together, and counts.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// callTimeout bounds each call of the store.
	callTimeout = 5 * time.Second
	// batch is the most leases that are renewed by one call: enough for 10,000 leases that all
	// renew within a second, and few enough for a statement of some kilobytes.
	batch = 500
	// gather is the least time between two of these calls: the first renewal goes at once, and
	// what arrives after it goes together. A holder renews every second at most.
	gather = 50 * time.Millisecond
)

// Store keeps the leases, by the rules that repository/sqlstore/leases.go has. Errors:
// model.ErrUnknownName, ErrNoWorkerID, ErrLeaseLost, ErrInvalidArgument, *model.StoreError.
type Store interface {
	GrantLease(ctx context.Context, name, instance string) (model.NameLease, error)
	// RenewLeases answers each; an error means that no answer counts.
	RenewLeases(ctx context.Context, keys []model.LeaseKey) ([]model.RenewedLease, error)
	ReleaseLease(ctx context.Context, key model.LeaseKey, lastUsed int64) error
}

// Stats count since the start.
type Stats struct {
	Granted  int64 `json:"granted" metric:"shardid_leases_granted_total" help:"Leases of worker IDs of names that were granted."`
	Renewed  int64 `json:"renewed" metric:"shardid_leases_renewed_total" help:"Renewals of leases."`
	Released int64 `json:"released" metric:"shardid_leases_released_total" help:"Leases that their holders gave back."`
	Lost     int64 `json:"lost" metric:"shardid_leases_lost_total" help:"Renewals and releases by holders whose lease had ended or was another's."`
	NoneFree int64 `json:"noneFree" metric:"shardid_leases_none_free_total" help:"Leases that were refused because every worker ID of the name was leased."`
	Calls    int64 `json:"-" metric:"shardid_lease_renewal_calls_total" help:"Calls of the database that renewed leases; one renews all that arrive together."`

	NoneFreeOf string `json:"-"` // the name that had none at last; "" for none yet
}

// Service grants, renews and releases leases. Safe for concurrent use, over processes too.
type Service struct {
	store      Store
	log        *slog.Logger
	background *background.Group

	granted, renewed, released, lost, noneFree, calls atomic.Int64
	noneFreeOf                                        atomic.Pointer[string]

	mu      sync.Mutex
	waiting []*renewal
	renews  bool // a goroutine calls the store, and looks at waiting after that
}

// renewal waits for the answer to it.
type renewal struct {
	key    model.LeaseKey
	answer chan model.RenewedLease // of one value
}

// New makes a Service, which is to be stopped.
func New(store Store, log *slog.Logger) *Service {
	return &Service{store: store, log: log, background: background.NewGroup("leases")}
}

// Stop lets the renewals end that have begun; the others answer model.ErrLeaseStore.
func (s *Service) Stop(ctx context.Context) error { return s.background.Stop(ctx, nil) }

// Stats are the counters.
func (s *Service) Stats() Stats {
	stats := Stats{
		Granted: s.granted.Load(), Renewed: s.renewed.Load(), Released: s.released.Load(),
		Lost: s.lost.Load(), NoneFree: s.noneFree.Load(), Calls: s.calls.Load(),
	}
	if name := s.noneFreeOf.Load(); name != nil {
		stats.NoneFreeOf = *name
	}
	return stats
}

// away makes a failure of the store one that callers know.
func away(err error) error {
	if _, ok := errors.AsType[*model.StoreError](err); ok || errors.Is(err, background.ErrStopping) {
		return fmt.Errorf("%w: %w", model.ErrLeaseStore, err)
	}
	return err
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	lease, err := s.store.GrantLease(ctx, name, instance)
	switch {
	case err == nil:
		s.granted.Add(1)
		s.log.Info("lease granted", "name", name, "worker_id", lease.WorkerID, "instance", instance, "after", lease.After, "until", lease.Until, "who", by)
	case errors.Is(err, model.ErrNoWorkerID):
		s.noneFreeOf.Store(&name)
		s.noneFree.Add(1)
		s.log.Warn("no worker ID is free", "name", name, "error", err)
	}
	return lease, away(err)
}

// Renew makes a lease longer; several that arrive together are one call of the store. Errors:
// model.ErrUnknownName, ErrLeaseLost, ErrLeaseStore, or that of ctx; after the last two the lease
// may be longer than its holder knows.
func (s *Service) Renew(ctx context.Context, key model.LeaseKey) (model.NameLease, error) {
	r := &renewal{key, make(chan model.RenewedLease, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, r)
	begin := !s.renews
	s.renews = true
	s.mu.Unlock()
	if begin && !s.background.Go(s.renewAll) {
		s.answerAll(background.ErrStopping)
	}
	select {
	case a := <-r.answer:
		switch {
		case a.Err == nil:
			s.renewed.Add(1)
		case errors.Is(a.Err, model.ErrLeaseLost):
			s.lost.Add(1)
		}
		return a.Lease, away(a.Err)
	case <-ctx.Done():
		return model.NameLease{}, ctx.Err()
	}
}

// takeWaiting takes renewals that wait; none ends the goroutine that calls the store.
func (s *Service) takeWaiting() []*renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), batch)
	taken := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	if n == 0 {
		s.waiting, s.renews = nil, false
	}
	return taken
}

// renewAll renews until none waits.
func (s *Service) renewAll() {
	for taken := s.takeWaiting(); len(taken) > 0; taken = s.takeWaiting() {
		keys := make([]model.LeaseKey, len(taken))
		for i, r := range taken {
			keys[i] = r.key
		}
		ctx, cancel := context.WithTimeout(s.background.Context(), callTimeout)
		s.calls.Add(1)
		answers, err := s.store.RenewLeases(ctx, keys)
		cancel()
		for i, r := range taken {
			if err != nil {
				r.answer <- model.RenewedLease{Err: err}
				continue
			}
			r.answer <- answers[i]
		}
		s.background.Sleep(gather)
	}
}

// answerAll gives all that wait an error.
func (s *Service) answerAll(err error) {
	for taken := s.takeWaiting(); len(taken) > 0; taken = s.takeWaiting() {
		for _, r := range taken {
			r.answer <- model.RenewedLease{Err: err}
		}
	}
}

// Release ends a lease whose holder issues nothing more and has used no time after lastUsed,
// Unix ms, 0 for one that does not say. Errors: model.ErrLeaseLost, also when it was released
// before; ErrInvalidArgument, ErrLeaseStore, or that of ctx.
func (s *Service) Release(ctx context.Context, by string, key model.LeaseKey, lastUsed int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.store.ReleaseLease(ctx, key, lastUsed)
	switch {
	case err == nil:
		s.released.Add(1)
		s.log.Info("lease released", "name", key.Name, "worker_id", key.WorkerID, "last_used", lastUsed, "who", by)
	case errors.Is(err, model.ErrLeaseLost):
		s.lost.Add(1)
	}
	return away(err)
}
