package worker

import (
	"context"
	"time"

	"shardid/model"
)

// Registry gives worker IDs. Safe for concurrent use, over processes too. It owns
// no goroutine and keeps no state of its own beyond its connection; only its own
// clock decides whether a lease has run out.
type Registry interface {
	// Acquire gets a worker ID for the owner. Nothing may be issued with it before
	// a Renew. Called again with the same token it returns the same lease, so a
	// call whose answer was lost may be repeated. Errors: model.ErrNoWorkerID,
	// model.ErrAddressTaken, *model.StoreError.
	Acquire(ctx context.Context, owner model.Owner) (model.Lease, error)
	// Renew stores the lease's Reserved, Expires and Reported, durably and never
	// lowering the first two, if the registry still holds it for the owner's
	// token. Errors: model.ErrLeaseLost when it does not, then another may hold
	// it; *model.StoreError when that is not known.
	Renew(ctx context.Context, lease model.Lease) (model.Lease, error)
	// Release gives the lease up: it stores its Reserved, the last time issued, and
	// its Expires, before which only the same identity may follow, both as given.
	// Errors: those of Renew.
	Release(ctx context.Context, lease model.Lease) error
}

// File keeps a worker ID and its reservation on this machine's disk. Safe for one
// process at a time, which it makes sure of by a lock.
type File interface {
	// Identity is that of the data folder.
	Identity() string
	// Load returns the lease of the last life, and false when there was none. Its After is its Reserved: all of it
	// may have been used.
	Load() (model.Lease, bool)
	// Store writes the lease durably: when it returns nil, a power cut does not
	// undo it.
	Store(lease model.Lease) error
	// Close gives the folder free. It may be called twice.
	Close() error
}

// Generator issues IDs inside the bounds it is granted; see idgen.Generator.
type Generator interface {
	// Begin takes up a worker ID whose IDs up to Unix ms after may be in use.
	Begin(workerID int, after int64)
	// Extend allows IDs up to Unix ms until, as long as the monotonic clock has not
	// reached trust.
	Extend(until int64, trust time.Duration)
	// End gives the worker ID up; no ID of it is issued afterwards.
	End(reason error)
	// LastIssued is the time of the latest ID, Unix ms.
	LastIssued() int64
}
