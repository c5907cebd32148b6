// Package segment is Leaf's segment mode: a tag's IDs are dense numbers, taken
// from ranges that one transaction each commits in the table leaf_alloc, and
// handed out from memory.
//
// A range is used as it was committed and by nobody else; after any error it is
// a gap. So an ID is issued once, whatever the database does, and this process
// never goes below an ID that it has seen handed out, not even when the table
// went back in time.
//
// Ranges are fetched ahead of demand: the next one when 10 % of the current is
// used, as in Leaf, and as many more as the tag needs to go on for
// Options.Runway without its database. The pieces, in the order a request meets
// them:
//
//	service.go    Next: find the tag by name
//	catalogue.go  which tags exist; reload
//	tag.go        take IDs from what is held
//	block.go      one range: a counter and where it ends
//	wait.go       callers that found too little
//	load.go       fetch ranges until enough is held
//	step.go       how long a range should be, as Leaf tunes it
//	demand.go     how much should be held
//	schedule.go   start, the regular work, stop
//	events.go     what is logged of single tags
//	stats.go      counters; view.go: what is shown of each tag
package segment

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
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
	loadFails atomic.Bool // the last load of any tag failed at the database
	starvedAt atomic.Int64
	stats     counters
	events    *events

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
		return nil, s.Ready()
	}
	return c.find(name)
}

// Ready is nil once the tags were read, else model.ErrNotReady with what the
// service waits for.
func (s *Service) Ready() error {
	if s.catalogue.Load() != nil {
		return nil
	}
	if err := s.waitsFor.Load(); err != nil {
		return fmt.Errorf("%w: waiting for %w", model.ErrNotReady, *err)
	}
	return fmt.Errorf("%w: starting", model.ErrNotReady)
}

// Starved says whether a caller got ErrSegmentEmpty within the last d.
func (s *Service) Starved(d time.Duration) bool {
	return time.Since(time.Unix(0, s.starvedAt.Load())) < d
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

const (
	// startRetry is the longest pause between two tries to read the tags first,
	// so that serving begins soon after the database's arrival.
	startRetry = 500 * time.Millisecond
	// observeEvery is how often the rate of each tag is looked at.
	observeEvery = time.Second
)

// Start begins to read the tags in the background and returns at once: the
// service becomes ready when the database has answered. A second call does
// nothing.
func (s *Service) Start() {
	s.mu.Lock()
	first := !s.started
	s.started = true
	s.mu.Unlock()
	if first {
		s.spawn(s.run)
	}
}

func (s *Service) run() {
	if !s.initialise() {
		return
	}
	s.opts.Log.Info("segment mode is ready", "tags", len(s.catalogue.Load().live))
	s.spawn(func() { s.every(s.opts.Reload, func() { _ = s.reloadAndReport() }) }) // it has been reported
	s.every(observeEvery, s.observe)
}

// initialise tries until it succeeds; false means the service stops.
func (s *Service) initialise() bool {
	for pause := minBackoff; ; pause = min(2*pause, startRetry) {
		err := s.reload()
		if err == nil {
			return true
		}
		s.waitsFor.Store(&err)
		if !s.sleep(pause) {
			return false
		}
	}
}

// every calls f again and again until the service stops; a call that takes longer
// than d delays the next.
func (s *Service) every(d time.Duration, f func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Service) observe() {
	now := time.Now()
	for _, t := range s.catalogue.Load().live {
		t.observe(now)
	}
}

// Stop ends all background work and fails whoever still waits; no ID is issued
// after it. It may be called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	if first {
		s.closeTags()
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop segment service: %w", ctx.Err())
	}
}

// closeTags closes all tags. One that a reload in flight is about to add holds
// nothing, and can load nothing.
func (s *Service) closeTags() {
	c := s.catalogue.Load()
	if c == nil {
		return
	}
	before := s.stats.wasted.Load()
	for _, t := range c.known {
		t.close(errStopping)
	}
	if n := s.stats.wasted.Load() - before; n > 0 {
		s.opts.Log.Info("IDs held ahead of demand were given up; they are gaps", "ids", n)
	}
}

// Table is leaf_alloc. Safe for concurrent use, over processes too.
type Table interface {
	// AllocateTag takes the next segment of a tag, as model.TagRequest.Next
	// chooses it, in one transaction: a segment is returned only when it is
	// committed for sure. After an error it may have been committed and must not
	// be used. Errors: model.ErrUnknownTag, ErrLimitReached, ErrInvalidArgument
	// for a row that cannot be used, *model.StoreError.
	AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error)
	// Tags reads all rows, as they are committed. Errors: *model.StoreError.
	Tags(ctx context.Context) ([]model.Tag, error)
}

// Reporter is told how something that is tried again and again went: nil when it
// works. It must not block.
type Reporter interface {
	Report(condition string, err error)
}

// The conditions that the service reports.
const (
	ConditionLoad   = "segment load"
	ConditionReload = "segment reload"
)
