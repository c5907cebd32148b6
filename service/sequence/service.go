// Package sequence issues numbers of keys that rise strictly over all replicas. A key belongs to
// a section of its space. Redis keeps how far each key of a section has come, and up to where
// it may go; the database hands out those bounds, and says which life of Redis may give the numbers.
//
// It knows nothing of HTTP and nothing of the stores behind its interfaces. The pieces, in the
// order in which a request meets them:
//
//	service.go  Ask: look the space up, wait for the answer
//	lane.go     what has come together is one call of Redis
//	fill.go     sections that cannot answer: their state, bounds and terms
//	fence.go    leases of the lives of Redis, and the spaces that there are
//
// scripts/prove/sequence.pml is the protocol.
package sequence

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/background"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Condition is what the service reports: it fails while a section that is asked cannot answer.
const Condition = "sequence"

// Store keeps how far the keys of sections have come. Safe for concurrent use. All calls may be
// repeated.
type Store interface {
	// State answers for every section, in order, with a write to each.
	State(ctx context.Context, keys []model.SectionKey) []model.SectionState
	// Next gives numbers, and answers in order.
	Next(ctx context.Context, asks []model.SectionAsk) []model.SectionAnswer
	// Push gives sections more numbers, and answers in order: nil, model.ErrLifeChanged,
	// model.ErrNotAboveHighWater, or a *model.StoreError after which they may have them.
	Push(ctx context.Context, pushes []model.SectionPush) []error
	// Confirm gives the life of the server that has the section, asked anew; where there is a
	// majority to ask, of the one that it names.
	Confirm(ctx context.Context, key model.SectionKey) (server string, err error)
	Majority() bool
	// Place names the servers, and the way to reach them.
	Place() string
}

// Allocator hands out numbers of sections. Safe for concurrent use, over processes too.
type Allocator interface {
	// AllocateSections answers for each section, as model.SectionRow.Next does, in one transaction.
	AllocateSections(ctx context.Context, reqs []model.SectionRequest, place string, sure bool) []model.SectionGrant
	// RenewFence renews the leases of lives of the store, and knows the spaces that there are.
	RenewFence(ctx context.Context, servers []string, place string) (model.Fence, error)
}

// Options are what a Service is made of. All fields but Alone, Registry and Now are required.
type Options struct {
	Store     Store
	Allocator Allocator
	Reporter  background.Reporter
	Log       *slog.Logger
	Timeout   time.Duration // how long a caller may wait
	// Alone says that no other process takes numbers of this database, as with SQLite: then no
	// lease is needed.
	Alone bool
	// Registry exports the counters; nil: nothing does.
	Registry prometheus.Registerer
	// Prepare gates the start.
	Prepare func(context.Context) error
	// Now is the wall clock in Unix nanoseconds and the monotonic clock; nil: the machine's.
	Now func() (wall int64, mono time.Duration)
}

// Service issues numbers. Safe for concurrent use.
type Service struct {
	opts       Options
	background *background.Group
	fills      background.Batcher[*section]           // sections that cannot answer
	looks      *rate.Limiter                          // for spaces that are not known
	spaces     atomic.Pointer[map[string]model.Space] // nil until the first renewal
	lane       lane
	failing    *background.Failing[model.SectionKey]
	events     background.RateLimitedLog
	issued     prometheus.Counter
}

// New starts nothing.
func New(opts Options) *Service {
	if opts.Now == nil {
		opts.Now = idgen.SystemClock()
	}
	s := &Service{
		opts: opts, background: background.NewGroup("sequence service"),
		looks: rate.NewLimiter(rate.Every(unknownEvery), 1), events: background.RateLimitedLog{Logger: opts.Log},
		issued: metric.Counter(opts.Registry, "shardid_sequence_issued_total",
			"Numbers of sequences that were given to callers."),
	}
	s.fills = background.Batcher[*section]{Group: s.background, Max: passSize, AtOnce: passesAtOnce, Do: s.fillSections}
	s.failing = background.NewFailing[model.SectionKey](func(err error) { opts.Reporter.Report(Condition, err) })
	s.lane.gathered = make(chan struct{}, 1)
	s.lane.svc, s.lane.sections, s.lane.leases = s, map[model.SectionKey]*section{}, map[string]*serverLease{}
	return s
}

// Start begins to initialise in the background and returns at once.
func (s *Service) Start() {
	s.background.Start(func() {
		ready := s.background.Initialise(func() error {
			ctx, cancel := context.WithTimeout(s.background.Context(), callTimeout)
			defer cancel()
			if err := s.opts.Prepare(ctx); err != nil {
				return err
			}
			return s.renewLeases(nil)
		})
		if !ready {
			return
		}
		s.opts.Log.Info("sequence mode is ready", "spaces", len(*s.spaces.Load()))
		for s.background.Sleep(renewEvery) {
			if err := s.renewLeases(nil); err != nil {
				s.opts.Log.Debug("leases of sequences were not renewed", "error", err)
			}
		}
	})
}

// Stop ends all background work and fails all callers that still wait. It may be called twice
// and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	return s.background.Stop(ctx, s.lane.close)
}

// Ready is nil while numbers may be had, as far as is known without asking a store. Errors:
// model.ErrNotReady.
func (s *Service) Ready() error {
	if s.spaces.Load() == nil {
		return s.background.NotReady()
	}
	return nil
}

// request is a call of Ask under way. The lane's mu guards it.
type request struct {
	left int           // asks without an answer; 0 also when nobody waits any more
	done chan struct{} // closed with the last answer
}

// item is an ask on its way through the lane, whose mu guards it. What it asks for is a copy: once nobody waits any
// more the ask is the caller's again.
type item struct {
	ask  *model.SequenceAsk
	of   *request         // nil once it is answered
	key  model.SectionKey // the lane gives it the section
	what model.KeyAsk
}

// answer gives an ask its answer, unless its caller has gone. Callers hold the lane's mu.
func (i *item) answer(last int64, err error) {
	if !i.waits() {
		return
	}
	if i.ask.Last, i.ask.Err = last, err; err != nil {
		i.ask.Last = 0
	}
	if i.of.left--; i.of.left == 0 {
		close(i.of.done)
	}
	i.of = nil
}

// waits says whether somebody waits for the answer. Callers hold the lane's mu.
func (i *item) waits() bool { return i.of != nil && i.of.left > 0 }

// Ask answers all asks, those of one key in their order. It waits until ctx ends, or for the
// timeout. Errors, in each ask: model.ErrNotReady, ErrUnknownSpace, ErrNoNumber, ErrLimitReached,
// or that of ctx.
func (s *Service) Ask(ctx context.Context, asks []*model.SequenceAsk) {
	known, err := s.knownSpaces(ctx, asks)
	if err != nil {
		for _, a := range asks {
			a.Err = err
		}
		return
	}
	r := &request{done: make(chan struct{})}
	items := make([]*item, 0, len(asks))
	for _, a := range asks {
		if _, found := known[a.Space]; !found {
			a.Err = s.unknownSpace(a.Space)
			continue
		}
		items = append(items, &item{a, r, model.SectionKey{Space: a.Space}, model.KeyAsk{Key: a.Key, Count: a.Count}})
	}
	if r.left = len(items); r.left == 0 {
		return
	}
	s.lane.add(items)
	late := time.NewTimer(s.opts.Timeout)
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C:
		s.lane.leaveUnanswered(items, r, nil)
	case <-ctx.Done():
		s.lane.leaveUnanswered(items, r, ctx.Err())
	}
}

// unknownSpace is the answer for a space that is not known. While the database cannot be asked it may exist.
func (s *Service) unknownSpace(name string) error {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if err := s.lane.failure; err != nil {
		return fmt.Errorf("%w: space %q is not known and cannot be looked for now: %w", model.ErrNoNumber, name, err)
	}
	return model.UnknownSpace(name)
}

// knownSpaces gives the spaces that there are. One that is asked for and not known is looked for, once
// a second at most.
func (s *Service) knownSpaces(ctx context.Context, asks []*model.SequenceAsk) (map[string]model.Space, error) {
	spaces := s.spaces.Load()
	if spaces == nil {
		return nil, s.background.NotReady()
	}
	for _, a := range asks {
		if _, found := (*spaces)[a.Space]; found || !s.looks.Allow() {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		err := s.background.Do(asking, func() error { return s.renewLeases(nil) })
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.lane.noteFailure(err)
		break
	}
	return *s.spaces.Load(), nil
}
