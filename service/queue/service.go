// Package queue is shardid's main job: it hashes a gatePass to one of 64
// shards, takes an index from the list of that app and shard, and composes the
// ID. Lists are refilled from allocated segments, at once when a pop sees the
// low watermark and by a sweep of one replica every other minute.
//
// It knows nothing of HTTP and nothing of the stores behind its interfaces,
// which are below. The pieces, in the order a request meets them:
//
//	service.go    Next: validate, find the list, take, wait
//	catalogue.go  which lists exist; reload
//	list.go       what this replica holds of one list: pops, the tripwire
//	refill.go     when a list is refilled, and the pass: lock, state, allocate, push
//	sweep.go      the cron jobs: refill what is low, read the apps again
//	stats.go      what is counted, and logged when a store went back in time
//	view.go       what is shown of each app
package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"shardid/model"
	"shardid/service/background"
)

// The conditions that the service reports. The first two fail while they do for at
// least one list.
const (
	ConditionPop    = "pop"
	ConditionRefill = "refill"
	ConditionReload = "reload"
)

// Options are what a Service is made of. All fields but Registry are required.
type Options struct {
	Lists     Lists
	Allocator Allocator
	Catalogue Catalogue
	Reporter  background.Reporter
	Log       *slog.Logger
	// Probe fails while the lists cannot be used; it gates the start only.
	Probe func(context.Context) error
	// Registry exports the counters; nil: nothing does.
	Registry prometheus.Registerer

	Timeout     time.Duration // how long a caller may wait for a refill, above 0
	PrefetchMax int           // one more than a list's indices that are held ahead of demand at most, 1…10 000
	MaxStep     int64         // longest segment, in indices, 1…model.MaxStep
	Region      model.Region  // joins each index
	RefillCron  string        // six fields, seconds first
	ReloadCron  string        // six fields, seconds first
}

// Service issues queue IDs. Safe for concurrent use.
type Service struct {
	opts       Options
	empty      error // what callers get who waited for too long
	background *background.Group
	cron       *cron.Cron
	reloadJob  cron.EntryID
	catalogue  atomic.Pointer[catalogue]      // nil until the first reload
	reloads    background.Batcher[chan error] // each gets the outcome of a reading of the apps that begins later
	due        background.Batcher[*list]      // to be refilled
	// failedPops and failedRefills are of the lists for which the latest one failed.
	failedPops, failedRefills *background.Failing[*list]
	stats                     counters
	events                    background.RateLimitedLog // of single lists
	rare                      background.RateLimitedLog // of what may last for days
}

// New starts nothing. The error is ErrInvalidArgument for a schedule that is none.
func New(opts Options) (*Service, error) {
	s := &Service{
		opts: opts, background: background.NewGroup("queue service"),
		empty:  fmt.Errorf("%w: no index came within %v", model.ErrQueueEmpty, opts.Timeout),
		events: background.RateLimitedLog{Logger: opts.Log},
		rare:   background.RateLimitedLog{Logger: opts.Log, Every: rareEvery},
	}
	s.due = background.Batcher[*list]{Group: s.background, Max: passSize, AtOnce: passesAtOnce, Do: s.pass}
	s.reloads = background.Batcher[chan error]{
		Group: s.background, Max: math.MaxInt, AtOnce: 1, Do: s.reloadFor,
	}
	s.failedPops = background.NewFailing[*list](func(err error) { opts.Reporter.Report(ConditionPop, err) })
	s.failedRefills = background.NewFailing[*list](func(err error) { opts.Reporter.Report(ConditionRefill, err) })
	if err := s.schedule(); err != nil {
		return nil, err
	}
	s.count()
	return s, nil
}

// Next issues count IDs, 1…model.MaxBatch, of a shard of the app and appends them to dst:
// all of them or, with an error, none. It waits for a refill until ctx ends or
// the configured timeout has passed.
//
// Errors: model.ErrNotReady, ErrUnknownApp, ErrUnknownShard, ErrQueueEmpty,
// ErrLimitReached, ErrInvalidArgument, or the error of ctx.
func (s *Service) Next(ctx context.Context, app int, shard uint8, count int, dst []int64) ([]int64, error) {
	key, err := model.NewListKey(int64(app), int64(shard))
	if err != nil {
		return dst, err
	}
	l, err := s.find(ctx, key)
	if err != nil {
		return dst, err
	}
	return l.openPool().Take(ctx, count, dst)
}

// Start begins to initialise in the background and returns at once: the service
// becomes ready when the stores have answered.
func (s *Service) Start() {
	s.background.Start(func() {
		ready := s.background.Initialise(func() error {
			ctx, cancel := context.WithTimeout(s.background.Context(), reloadTimeout)
			defer cancel()
			if err := s.opts.Probe(ctx); err != nil {
				return err
			}
			return s.reload()
		})
		if !ready {
			return
		}
		s.opts.Log.Info("queue mode is ready", "lists", len(s.catalogue.Load().all()))
		s.cron.Start()
		s.sweep()
		<-s.background.Context().Done()
		<-s.cron.Stop().Done()
	})
}

// Stop ends all background work and fails all callers that still wait. It may be
// called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	return s.background.Stop(ctx, func() {
		c := s.catalogue.Load()
		if c == nil {
			return
		}
		for _, l := range c.all() {
			l.close(background.ErrStopping)
		}
	})
}

// Ready is nil while IDs of at least one app may be had, as far as is known without
// asking a store. Errors: model.ErrNotReady with what the service waits for, and
// model.ErrQueueEmpty once every list is another deployment's, or is empty and cannot be
// refilled.
func (s *Service) Ready() error {
	c, err := s.current()
	if err != nil {
		return err
	}
	lists := c.all()
	failing := s.failedRefills.Errs()
	if len(lists) == 0 || len(failing) < len(lists) {
		return nil
	}
	for _, l := range lists {
		if errors.Is(failing[l], model.ErrForeign) {
			continue // whatever it held before
		}
		l.mu.Lock()
		dry := l.depth == 0 && l.counts().Held == 0
		l.mu.Unlock()
		if !dry {
			return nil
		}
	}
	return fmt.Errorf("%w: no list can give an index: %w", model.ErrQueueEmpty, s.failedRefills.Err())
}

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
	// order, which it got. Errors: *model.StoreError, beside which those
	// that may be held count, too.
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
