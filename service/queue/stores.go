package queue

import (
	"context"
	"time"

	"shardid/model"
)

// Lists holds the indices that are ready to be issued. Safe for concurrent use.
//
// Whatever happens to the store, a pop never returns an index that it, or an
// earlier life of it, returned before: each call compares
// the life of the list with the store's own and drops the list when they differ.
type Lists interface {
	// Pop takes up to n of the oldest indices, n in 1…10 000. An empty list is no
	// error. Errors: *model.StoreError.
	Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error)
	// State answers for every key, in order, in as few round trips as it can.
	// Failures are in each ListState.Err, as Pop's.
	State(ctx context.Context, keys []model.ListKey) []model.ListState
	// Probe is State after a write beside each list, so that a store which is full,
	// or takes no writes for another reason, says so in ListState.Err.
	Probe(ctx context.Context, keys []model.ListKey) []model.ListState
	// Push appends segments, at most one attempt each, and answers in order: nil,
	// model.ErrLifeChanged, model.ErrNotAboveHighWater, model.ErrListFull, or
	// a *model.StoreError after which the segment may or may not have arrived.
	// Whatever the error, the segment must never be pushed again.
	Push(ctx context.Context, reqs []model.PushRequest) []error
	// Delete drops lists; their high-water marks stay. Errors: *model.StoreError.
	Delete(ctx context.Context, keys []model.ListKey) error

	// Locks keep replicas from refilling one list at the same time. Correctness never depends on them.

	// TryLock tries to take each name for ttl under the token and says, in
	// order, which it got. Errors: *model.StoreError, then nothing is held.
	TryLock(ctx context.Context, names []string, token string, ttl time.Duration) ([]bool, error)
	// Unlock frees those names that the token still holds. Errors: *model.StoreError.
	Unlock(ctx context.Context, names []string, token string) error
}

// Allocator hands out segments. Safe for concurrent use, over processes too.
type Allocator interface {
	// Allocate takes the next segment for each request, in order, as
	// model.AllocState.Next chooses it, in one transaction: a segment is
	// returned only when it is committed for sure. Requests name distinct lists.
	Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation
}

// Catalogue knows which apps and shards exist.
type Catalogue interface {
	// Load reads every list's configuration. Errors: *model.StoreError.
	Load(ctx context.Context) ([]model.ListConfig, error)
}
