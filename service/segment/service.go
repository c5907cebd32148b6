package segment

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/health"
)

// MaxBatch is the most IDs one call may ask for.
const MaxBatch = 10_000

const (
	// DefaultMaxStep is Leaf's bound of a tuned step (SegmentIDGenImpl.MAX_STEP).
	DefaultMaxStep = 1_000_000
	// DefaultRunway is how long a tag should go on without its database.
	DefaultRunway = 10 * time.Minute
	// DefaultReload is how often Leaf reads the tags.
	DefaultReload = time.Minute
)

// errStopping is what callers get who still wait when the service stops.
var errStopping = fmt.Errorf("%w: shutting down, ask another replica", model.ErrNotReady)

// Options are what a Service is made of. The first four are required; for the
// others 0 means the default.
type Options struct {
	Table    Table
	Reporter Reporter
	Log      *slog.Logger
	Timeout  time.Duration // how long a caller may wait for a segment

	MaxStep int64         // bound of the tuned step, in IDs; DefaultMaxStep. A row may ask for more
	Runway  time.Duration // how long what is held should last; DefaultRunway
	Reload  time.Duration // how often the tags are read anew; DefaultReload
}

// Service issues the IDs of tags. Safe for concurrent use.
type Service struct {
	opts      Options
	catalogue atomic.Pointer[catalogue] // nil until the tags were read first
	waitsFor  atomic.Pointer[error]     // why they were not yet
	reloading reloadGate
	// loads are of the tags whose latest one failed at the database.
	loads       *health.Failing[*Tag]
	reloadFails atomic.Bool // the latest reload did
	stats       counters
	events      *events

	ctx     context.Context // ends at Stop; parents all background work
	cancel  context.CancelFunc
	mu      sync.Mutex // guards started, stopped, and wg against Add after Wait
	started bool
	stopped bool
	wg      sync.WaitGroup
}

// New validates the options and starts nothing.
func New(opts Options) (*Service, error) {
	opts.setDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{opts: opts, events: newEvents(opts.Log)}
	s.loads = health.NewFailing[*Tag](func(err error) { opts.Reporter.Report(ConditionLoad, err) })
	s.reloading.running = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func (o *Options) setDefaults() {
	if o.MaxStep == 0 {
		o.MaxStep = DefaultMaxStep
	}
	if o.Runway == 0 {
		o.Runway = DefaultRunway
	}
	if o.Reload == 0 {
		o.Reload = DefaultReload
	}
}

func (o *Options) validate() error {
	switch {
	case o.Timeout <= 0:
		return fmt.Errorf("%w: segment timeout %v is not positive", model.ErrInvalidArgument, o.Timeout)
	case o.MaxStep < 1 || o.MaxStep > model.MaxTagStep:
		return fmt.Errorf("%w: max step %d is not in 1…%d", model.ErrInvalidArgument, o.MaxStep, int64(model.MaxTagStep))
	case o.Runway < 0:
		return fmt.Errorf("%w: runway %v is negative", model.ErrInvalidArgument, o.Runway)
	case o.Reload < 0:
		return fmt.Errorf("%w: reload interval %v is negative", model.ErrInvalidArgument, o.Reload)
	}
	return nil
}

// Next issues count IDs of the tag and appends them to dst, ascending: all of
// them or, with an error, none. It waits for a segment until ctx ends or the
// configured timeout has passed.
//
// Errors: model.ErrNotReady, ErrUnknownTag, ErrSegmentEmpty, ErrLimitReached,
// ErrInvalidArgument, or the error of a ctx that was canceled.
func (s *Service) Next(ctx context.Context, tag string, count int, dst []int64) ([]int64, error) {
	t := s.lookUp(tag)
	switch {
	case t == nil:
		return s.nextOfUnknown(ctx, tag, count, dst)
	case count != 1:
		return t.many(ctx, count, dst)
	}
	b, n, plain := t.claimOne() // as Tag.Next does, without a call
	if !plain {
		return t.finish(ctx, b, n, dst)
	}
	return append(dst, b.first+n-1), nil
}

// lookUp is the tag of the name, or nil.
func (s *Service) lookUp(name string) *Tag {
	if c := s.catalogue.Load(); c != nil {
		return c.live[name]
	}
	return nil
}

// nextOfUnknown is Next for a tag that was not there when the tags were last read.
func (s *Service) nextOfUnknown(ctx context.Context, tag string, count int, dst []int64) ([]int64, error) {
	t, err := s.find(ctx, tag)
	if err != nil {
		return dst, err
	}
	return t.Next(ctx, count, dst)
}

// Tag returns a handle of a tag, which issues without looking the name up. It
// stays valid when the tag is removed and added again. Errors: those of Next.
func (s *Service) Tag(name string) (*Tag, error) {
	c := s.catalogue.Load()
	if c == nil {
		return nil, s.notReady()
	}
	return c.find(name)
}

// Ready is nil while IDs of at least one tag may be had, as far as is known without
// asking the database. Errors: model.ErrNotReady with what the service waits for, and
// model.ErrSegmentEmpty once every tag is used up and none can be loaded.
func (s *Service) Ready() error {
	c := s.catalogue.Load()
	if c == nil {
		return s.notReady()
	}
	if len(c.live) == 0 || len(s.loads.Keys()) < len(c.live) {
		return nil
	}
	for _, t := range c.live {
		if !t.isDry() {
			return nil
		}
	}
	return fmt.Errorf("%w: no tag holds an ID: %w", model.ErrSegmentEmpty, s.loads.Err())
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
