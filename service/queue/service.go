package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/health"

	"github.com/robfig/cron/v3"
)

// MaxBatch is the most IDs one call may ask for.
const MaxBatch = 10_000

// Reporter is told how something that is tried again and again went: nil when it
// works. It must not block.
type Reporter interface {
	Report(condition string, err error)
}

// The conditions that the service reports. The first two fail while they do for at
// least one list.
const (
	ConditionPop    = "pop"
	ConditionRefill = "refill"
	ConditionReload = "reload"
)

// errStopping is what callers get who still wait when the service stops.
var errStopping = fmt.Errorf("%w: shutting down, ask another replica", model.ErrNotReady)

// Options are what a Service is made of. All fields are required.
type Options struct {
	Lists     Lists
	Locker    Locker
	Allocator Allocator
	Catalogue Catalogue
	Reporter  Reporter
	Log       *slog.Logger
	// Probe fails while the lists cannot be used; it gates the start only.
	Probe func(context.Context) error
	// Observe is told of a refill pass over so many lists. It gives the context of the
	// pass' steps, and is told of its end. nil: nobody is; it is not required.
	Observe func(ctx context.Context, lists int) (context.Context, func())

	Timeout      time.Duration // how long a caller may wait for a refill
	LowWatermark float64       // share of the step, in (0,1), at which a list is refilled
	PrefetchMax  int           // most indices taken from one list at once, 1…10 000
	MaxStep      int64         // longest segment, in indices
	LiftAlarm    int64         // a max_id that went back by more, in indices, is an alarm
	RefillCron   string        // six fields, seconds first
	ReloadCron   string        // six fields, seconds first
}

// Service issues queue IDs. Safe for concurrent use.
type Service struct {
	opts      Options
	cron      *cron.Cron
	reloadJob cron.EntryID
	catalogue atomic.Pointer[catalogue] // nil until the first reload
	waitsFor  atomic.Pointer[error]     // why the service is not initialised yet
	reloading reloadGate
	// pops and refills are of the lists for which the latest one failed.
	pops, refills *health.Failing[*list]
	reloadFails   atomic.Bool // the latest reload did
	stats         counters
	events        *events
	depths        depthGate

	ctx     context.Context // ends at Stop; parents all background work
	cancel  context.CancelFunc
	mu      sync.Mutex // guards stopped, and wg against Add after Wait
	stopped bool
	wg      sync.WaitGroup
}

// New validates the options and starts nothing.
func New(opts Options) (*Service, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, events: newEvents(opts.Log)}
	s.pops = health.NewFailing[*list](func(err error) { opts.Reporter.Report(ConditionPop, err) })
	s.refills = health.NewFailing[*list](func(err error) { opts.Reporter.Report(ConditionRefill, err) })
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.schedule(); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

func (o Options) validate() error {
	switch {
	case o.Timeout <= 0:
		return fmt.Errorf("%w: queue timeout %v is not positive", model.ErrInvalidArgument, o.Timeout)
	case o.LowWatermark <= 0 || o.LowWatermark >= 1:
		return fmt.Errorf("%w: low watermark %v is not between 0 and 1", model.ErrInvalidArgument, o.LowWatermark)
	case o.PrefetchMax < 1 || o.PrefetchMax > MaxBatch:
		return fmt.Errorf("%w: prefetch max %d is not in 1…%d", model.ErrInvalidArgument, o.PrefetchMax, MaxBatch)
	case o.MaxStep < 1 || o.MaxStep > model.MaxStep:
		return fmt.Errorf("%w: max step %d is not in 1…%d", model.ErrInvalidArgument, o.MaxStep, model.MaxStep)
	}
	return nil
}

// Next issues count IDs of the app for the gatePass and appends them to dst:
// all of them or, with an error, none. It waits for a refill until ctx ends or
// the configured timeout has passed.
//
// Errors: model.ErrNotReady, ErrUnknownApp, ErrUnknownShard, ErrQueueEmpty,
// ErrLimitReached, ErrInvalidArgument, or the error of ctx.
func (s *Service) Next(ctx context.Context, app int, gatePass string, count int, dst []int64) ([]int64, error) {
	if err := model.CheckGatePass(gatePass); err != nil {
		return dst, err
	}
	if count < 1 || count > MaxBatch {
		return dst, fmt.Errorf("%w: count %d is not in 1…%d", model.ErrInvalidArgument, count, MaxBatch)
	}
	key, err := model.NewListKey(int64(app), int64(model.ShardOf(gatePass)))
	if err != nil {
		return dst, err
	}
	l, err := s.find(ctx, key)
	if err != nil {
		return dst, err
	}
	if ids, ok := l.tryTake(count, dst); ok {
		return ids, nil
	}
	return l.await(ctx, count, dst)
}

// Ready is nil while IDs of at least one app may be had, as far as is known without
// asking a store. Errors: model.ErrNotReady with what the service waits for, and
// model.ErrQueueEmpty once every list is empty and cannot be refilled.
func (s *Service) Ready() error {
	c := s.catalogue.Load()
	if c == nil {
		return s.notReady()
	}
	lists := c.all()
	if len(lists) == 0 || len(s.refills.Keys()) < len(lists) {
		return nil
	}
	for _, l := range lists {
		if !l.isDry() {
			return nil
		}
	}
	return fmt.Errorf("%w: no list has an index left: %w", model.ErrQueueEmpty, s.refills.Err())
}

// notReady is model.ErrNotReady with what the service waits for.
func (s *Service) notReady() error {
	if err := s.waitsFor.Load(); err != nil {
		return fmt.Errorf("%w: waiting for %w", model.ErrNotReady, *err)
	}
	return fmt.Errorf("%w: starting", model.ErrNotReady)
}

// spawn runs f in the background and Stop waits for it; false means that the
// service is stopping and f will not run.
func (s *Service) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.wg.Go(f)
	return true
}

// sleep waits for d or until the service stops; false means it stops.
func (s *Service) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}
