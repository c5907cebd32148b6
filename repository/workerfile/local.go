package workerfile

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"

	"shardid/model"
)

// LocalRegistry gives each address the worker ID that the configuration says. It
// keeps nothing and has no clock: what an instance reserved is in its worker file
// alone, so an address must not move to a machine without it. Safe for
// concurrent use.
type LocalRegistry struct {
	stateless
	ids     map[string]int
	workers int // how many worker IDs there are
}

// Local makes the registry from snowflake.worker.local_map, ip:port to worker ID, of which
// there are so many. Errors: model.ErrInvalidArgument for a worker ID that is not
// 0…workers-1 or given twice, and for an address that is not ip:port.
func Local(ids map[string]int, workers int) (*LocalRegistry, error) {
	holder := make(map[int]string, len(ids))
	for _, address := range slices.Sorted(maps.Keys(ids)) {
		id := ids[address]
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("%w: snowflake.worker.local_map: %q is not ip:port", model.ErrInvalidArgument, address)
		}
		if id < 0 || id >= workers {
			return nil, fmt.Errorf("%w: snowflake.worker.local_map: worker ID %d of %s is not 0…%d",
				model.ErrInvalidArgument, id, address, workers-1)
		}
		if other, taken := holder[id]; taken {
			return nil, fmt.Errorf("%w: snowflake.worker.local_map: %s and %s both have worker ID %d",
				model.ErrInvalidArgument, other, address, id)
		}
		holder[id] = address
	}
	return &LocalRegistry{ids: maps.Clone(ids), workers: workers}, nil
}

// Acquire gives the worker ID of the owner's address. Errors:
// model.ErrNoWorkerID when it is not listed, that of the context.
func (l *LocalRegistry) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	if err := done(ctx); err != nil {
		return model.Lease{}, err
	}
	id, listed := l.ids[owner.Address]
	if !listed {
		return model.Lease{}, fmt.Errorf("%w: %s is not in snowflake.worker.local_map: add it with a worker ID of its own, 0…%d, "+
			"or set snowflake.advertise to an address that is listed", model.ErrNoWorkerID, owner.Address, l.workers-1)
	}
	return model.Lease{WorkerID: id, Owner: owner, Registry: ModeLocal}, nil
}

// stateless is what the registries share that store nothing.
type stateless struct{}

// Renew returns the lease as it is: no other instance can take it.
func (stateless) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	if err := done(ctx); err != nil {
		return model.Lease{}, err
	}
	return lease, nil
}

// Release does nothing.
func (stateless) Release(ctx context.Context, _ model.Lease) error { return done(ctx) }

// Peers knows none.
func (stateless) Peers(ctx context.Context) ([]model.WorkerPeer, error) { return nil, done(ctx) }

func done(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &model.StoreError{Store: "local_map", Op: "look up a worker ID", Err: err}
	}
	return nil
}
