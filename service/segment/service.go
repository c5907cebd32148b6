// Package segment is Leaf's segment mode: a tag's IDs are dense numbers, taken
// from ranges that one transaction each commits in the table leaf_alloc, and
// issued from memory.
//
// A range is used as it was committed and by this process alone; after any error it is
// a gap. So an ID is issued once, whatever the database does, and this process
// never goes below an ID that it has seen issued, not even when the table
// went back in time.
//
// Ranges are fetched ahead of demand: the next one when 10 % of the current is
// used, as in Leaf, and as many more as the tag needs to continue for
// Options.Runway without its database. The pieces, in the order a request meets
// them:
//
//	service.go    Next: find the tag by name; start, the regular work, stop
//	catalogue.go  the tags in use: how their rows are read
//	tag.go        the pool of a tag's IDs, and how it fetches ranges
//	numbers.go    IDs that are shown as texts, and the periods of their sequences
//	view.go       what is counted, and shown of each tag
package segment

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/background"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/puzpuzpuz/xsync/v4"
)

const (
	// defaultMaxStep is Leaf's bound of a tuned step (SegmentIDGenImpl.MAX_STEP).
	defaultMaxStep = 1_000_000
	// defaultRunway is how long a tag should continue without its database.
	defaultRunway = 10 * time.Minute
	// preload is the share of a segment whose use loads the next, as in Leaf (SegmentIDGenImpl).
	preload = 0.1
	// defaultReload is how often Leaf reads the tags.
	defaultReload = time.Minute
)

// observeEvery is how often the rate of each tag is looked at.
const observeEvery = time.Second

// Table is leaf_alloc. Safe for concurrent use, over processes too.
type Table interface {
	// AllocateTag takes the next segment of a tag, as model.TagRequest.Next
	// chooses it, in one transaction: a segment is returned only when it is
	// committed for sure. After an error it may have been committed and must not
	// be used. Errors: model.ErrUnknownTag, ErrLimitReached, ErrInvalidArgument
	// for a row that cannot be used, *model.StoreError.
	AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error)
	// TagsNamed reads the rows of at most 1000 names, as they are committed; the answer may have
	// names that are the same to the table. Errors: *model.StoreError.
	TagsNamed(ctx context.Context, names []string) ([]model.Tag, error)
}

// The conditions that the service reports.
const (
	ConditionLoad   = "segment load"
	ConditionReload = "segment reload"
)

// Options are what a Service is made of. The first four are required; for the
// others 0 means the default.
type Options struct {
	Table    Table
	Reporter background.Reporter
	Log      *slog.Logger
	Timeout  time.Duration // how long a caller may wait for a segment

	Region  model.Region  // joins each number
	MaxStep int64         // bound of the tuned step, in IDs; a million. A row may ask for more
	Runway  time.Duration // how long what is held should last; ten minutes
	Reload  time.Duration // how often the tags are read anew; a minute
	// Now is this machine's clock, which says the period of business numbers; nil means
	// time.Now.
	Now func() time.Time
	// Registry exports the counters; nil: nothing does.
	Registry prometheus.Registerer
}

// Service issues the IDs of tags. Safe for concurrent use.
type Service struct {
	opts       Options
	background *background.Group
	tags       *xsync.Map[string, *Tag]    // that are or were in use; none is ever taken out
	lookups    background.Batcher[*lookup] // of names whose rows callers wait for

	reading  chan struct{} // holds one element while rows are read
	reads    atomic.Uint64 // counts these readings
	answered atomic.Bool   // one of them succeeded

	loads  *background.Failing[*Tag] // the tags whose latest load failed at the database
	stats  counters
	events background.RateLimitedLog // of single tags
}

// New starts nothing.
func New(opts Options) *Service {
	opts.MaxStep = cmp.Or(opts.MaxStep, defaultMaxStep)
	opts.Runway = cmp.Or(opts.Runway, defaultRunway)
	opts.Reload = cmp.Or(opts.Reload, defaultReload)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Service{
		opts: opts, background: background.NewGroup("segment service"), tags: xsync.NewMap[string, *Tag](),
		reading: make(chan struct{}, 1), events: background.RateLimitedLog{Logger: opts.Log},
	}
	s.lookups = background.Batcher[*lookup]{Group: s.background, Max: math.MaxInt, AtOnce: 1, Do: s.readAsked}
	s.count()
	s.loads = background.NewFailing[*Tag](func(err error) { opts.Reporter.Report(ConditionLoad, err) })
	return s
}

// Next issues count IDs, 1…model.MaxBatch, of the tag and appends them to dst, ascending: all of
// them or, with an error, none. Those of a tag with shard bits end in the low bits of the key. It waits for a
// segment until ctx ends or the configured timeout has passed.
//
// Errors: model.ErrNotReady, ErrUnknownTag, ErrSegmentEmpty, ErrLimitReached,
// ErrInvalidArgument, ErrPattern, or the error of a ctx that was canceled.
func (s *Service) Next(
	ctx context.Context, tag string, key model.ShardKey, count int, dst []int64,
) ([]int64, error) {
	t, found := s.tags.Load(tag)
	if !found {
		var err error
		if t, err = s.findTag(ctx, tag); err != nil {
			return dst, err
		}
	}
	if t.numbers != nil {
		return dst, t.textsOnly()
	}
	low, err := key.Low(tag, t.shardBits)
	if err != nil {
		return dst, err
	}
	if count != 1 {
		before := len(dst)
		dst, err = t.takeIDs(ctx, count, dst)
		for i := range dst[before:] {
			dst[before+i] |= low
		}
		return dst, err
	}
	id, err := t.pool.Next(ctx)
	if err != nil {
		return dst, t.refuse(err)
	}
	return append(dst, id|low), nil
}

// Run issues the IDs First, First+Stride, …, for a client that counts on its own: a segment of the row's step, from a
// transaction of its own, and of a tag with shard bits those of the key. Errors: those of Next.
func (s *Service) Run(ctx context.Context, tag string, key model.ShardKey) (run hold.Run, err error) {
	t, err := s.findTag(ctx, tag)
	switch {
	case err != nil:
		return run, err
	case t.numbers != nil:
		return run, t.textsOnly()
	}
	low, err := key.Low(tag, t.shardBits)
	if err != nil {
		return run, err
	}
	// That a client has gone is no failure of the database.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(s.background.Context(), cancel)()
	taken, err := t.takeSegment(ctx, 0)
	if err != nil {
		return run, t.refuse(err)
	}
	t.mu.Lock()
	t.beside += taken.End - taken.First
	t.mu.Unlock()
	run = t.runOf(taken)
	run.First |= low
	return run, nil
}

// ShardBits are those of the IDs of a tag, 0 for none. Errors: those of Next.
func (s *Service) ShardBits(ctx context.Context, tag string) (uint, error) {
	t, err := s.findTag(ctx, tag)
	if err != nil {
		return 0, err
	}
	return t.shardBits, nil
}

// Ready is nil while IDs of at least one tag may be had, as far as is known without
// asking the database. Errors: model.ErrNotReady with what the service waits for, and
// model.ErrSegmentEmpty once every tag in use is used up and none can be loaded.
func (s *Service) Ready() error {
	if !s.answered.Load() {
		return s.background.NotReady()
	}
	failing := s.loads.Errs()
	if len(failing) == 0 {
		return nil
	}
	for _, t := range s.tags.All() {
		if t.exists() && (failing[t] == nil || t.pool.Counts().Held > 0) {
			return nil
		}
	}
	return fmt.Errorf("%w: no tag holds an ID: %w", model.ErrSegmentEmpty, s.loads.Err())
}

// Start begins the regular work in the background and returns at once: the
// service becomes ready when the database has answered. A second call does
// nothing.
func (s *Service) Start() {
	s.background.Start(func() {
		started := s.background.Initialise(func() error {
			_, err := s.readPart(nil)
			return err
		})
		if !started {
			return
		}
		s.opts.Log.Info("segment mode is ready")
		s.background.Go(s.reloadTags)
		s.background.Every(observeEvery, func() {
			now := time.Now()
			for _, t := range s.tags.All() {
				if t.numbers != nil {
					_, _ = t.dropPast(s.opts.Now()) // callers are told
				}
				t.observe(now)
			}
		})
	})
}

// Stop ends all background work and fails all callers that still wait; no ID is issued
// after it. It may be called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	return s.background.Stop(ctx, func() {
		for _, t := range s.tags.All() { // one that is read right now holds nothing, and can load nothing
			t.pool.Close(background.ErrStopping)
		}
	})
}
