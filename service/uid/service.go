package uid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/ring"
)

// MaxBatch is the most IDs one call may ask for.
const MaxBatch = 10_000

// The modes.
const (
	// ModeDefault gives an ID the second it was asked for; at most one second's
	// sequence numbers a second.
	ModeDefault = "default"
	// ModeCached takes IDs from a ring that is filled ahead of demand.
	ModeCached = "cached"
)

// What happens when the ring is full.
const (
	// PutDiscard fills the ring when less than PaddingFactor is left. The put that
	// finds no room is discarded and counted; its second is used by the next one.
	PutDiscard = "discard"
	// PutBlock lets the filler wait, so that the ring is topped up as soon as a
	// second's IDs find room.
	PutBlock = "block"
)

// What happens when the ring is empty.
const (
	// TakeRefuse answers model.ErrRingEmpty at once.
	TakeRefuse = "refuse"
	// TakeWait waits until the context ends or Timeout has passed.
	TakeWait = "wait"
)

// errStopping is what callers get who still wait when the service stops.
var errStopping = fmt.Errorf("%w: shutting down, ask another replica", model.ErrNotReady)

// Options are what a Service is made of.
type Options struct {
	Mode   string // ModeDefault or ModeCached
	Layout model.UIDLayout
	Place  Place
	// Timeout is how long a caller waits: in default mode for the next second, in
	// cached mode, with TakeWait or a batch larger than the ring, for the filler.
	Timeout time.Duration

	// For ModeCached only.
	BoostPower    int // the ring has 2^(SeqBits+BoostPower) IDs; 1…16
	PaddingFactor int // percent of the ring below which it is refilled; 1…99
	// ScheduleInterval refills the ring by time as well; 0 is off.
	ScheduleInterval time.Duration
	RejectPut        string // PutDiscard or PutBlock
	RejectTake       string // TakeRefuse or TakeWait
	// FollowClock keeps the time in IDs near the truth: a fill begins no earlier
	// than the clock, and never goes on more than the ring's own span, 2^BoostPower
	// seconds, ahead of it. In the long run there are then no more IDs than one
	// second's sequence numbers a second. What lies in the ring grows old all the
	// same while nobody takes it.
	FollowClock bool

	Nodes    Nodes
	Reporter Reporter
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now
}

// Service issues UIDs. Safe for concurrent use.
type Service struct {
	opts Options
	ring *ring.Ring // nil in default mode

	grant  atomic.Pointer[grant] // nil while no node is held
	reason atomic.Pointer[error] // why none is; nil at the start
	stats  counters
	// fillFails: a failed fill was reported, of whichever node.
	fillFails atomic.Bool
	life      lifetime

	ctx     context.Context // ends at Stop; parents all background work
	cancel  context.CancelFunc
	mu      sync.Mutex // guards stopped, and wg against Add after Wait
	stopped bool
	wg      sync.WaitGroup
}

// New validates the options and starts nothing. Errors: model.ErrInvalidArgument.
func New(opts Options) (*Service, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Service{opts: opts}
	if opts.Mode == ModeCached {
		size := opts.Layout.Sequences() << opts.BoostPower
		r, err := ring.New(size, max(1, size*int64(opts.PaddingFactor)/100))
		if err != nil {
			return nil, err
		}
		s.ring = r
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

func (o Options) validate() error {
	if err := o.Layout.Check(); err != nil {
		return err
	}
	switch {
	case o.Mode != ModeDefault && o.Mode != ModeCached:
		return fmt.Errorf("%w: UID mode %q is neither default nor cached", model.ErrInvalidArgument, o.Mode)
	case o.Timeout <= 0:
		return fmt.Errorf("%w: UID timeout %v is not positive", model.ErrInvalidArgument, o.Timeout)
	case o.Place.Type != model.NodeContainer && o.Place.Type != model.NodeActual:
		return fmt.Errorf("%w: node type %d is neither %d nor %d", model.ErrInvalidArgument, o.Place.Type, model.NodeContainer, model.NodeActual)
	case o.Mode == ModeCached:
		return o.validateCached()
	}
	return nil
}

// maxRing bounds the ring: its IDs are not stored, but more than 2^30 of them would
// be a mistake.
const maxRing = 30

func (o Options) validateCached() error {
	switch {
	case o.BoostPower < 1 || o.BoostPower > 16:
		return fmt.Errorf("%w: boost power %d is not in 1…16", model.ErrInvalidArgument, o.BoostPower)
	case int(o.Layout.SeqBits)+o.BoostPower > maxRing:
		return fmt.Errorf("%w: a ring of 2^(%d+%d) IDs: sequence bits and boost power may add up to %d", model.ErrInvalidArgument, o.Layout.SeqBits, o.BoostPower, maxRing)
	case o.PaddingFactor < 1 || o.PaddingFactor > 99:
		return fmt.Errorf("%w: padding factor %d is not in 1…99", model.ErrInvalidArgument, o.PaddingFactor)
	case o.ScheduleInterval < 0:
		return fmt.Errorf("%w: schedule interval %v is negative", model.ErrInvalidArgument, o.ScheduleInterval)
	case o.RejectPut != PutDiscard && o.RejectPut != PutBlock:
		return fmt.Errorf("%w: reject_put %q is neither discard nor block", model.ErrInvalidArgument, o.RejectPut)
	case o.RejectTake != TakeRefuse && o.RejectTake != TakeWait:
		return fmt.Errorf("%w: reject_take %q is neither refuse nor wait", model.ErrInvalidArgument, o.RejectTake)
	}
	return nil
}

// Next issues count IDs, 1…MaxBatch, in ascending order and appends them to dst: all
// of them or, with an error, none. In default mode it waits for the next second when
// this one is used up; in cached mode it waits for the ring only with TakeWait, or
// for the rest of a batch that is larger than the ring.
//
// Errors: model.ErrNotReady, ErrNoLease, ErrRingEmpty, ErrClockBack,
// ErrTimeExhausted, ErrInvalidArgument, or the error of ctx.
func (s *Service) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count < 1 || count > MaxBatch {
		return dst, fmt.Errorf("%w: count %d is not in 1…%d", model.ErrInvalidArgument, count, MaxBatch)
	}
	if s.ring == nil {
		return s.nextByClock(ctx, count, dst)
	}
	if count == 1 {
		if id, ok := s.ring.Take(); ok {
			return append(dst, id), nil
		}
	}
	return s.nextFromRing(ctx, count, dst)
}

// Ready is nil when IDs can be issued, else the error that Next would give.
func (s *Service) Ready() error {
	g := s.grant.Load()
	switch {
	case g == nil:
		return s.noGrant()
	case s.ring == nil:
		return g.readyAt(s.opts.Now().Unix())
	case s.ring.Len() == 0 && (g.fillErr.Load() != nil || g.last.Load() == 0):
		return s.dry()
	}
	return nil
}

// Parse takes an ID apart, with its time in the zone. The error is
// model.ErrInvalidArgument for a number that is no ID.
func (s *Service) Parse(id int64, zone *time.Location) (model.UIDParts, error) {
	return s.opts.Layout.Parse(id, zone)
}

// noGrant says why no node is held: model.ErrNotReady before the first one,
// model.ErrNoLease after it.
func (s *Service) noGrant() error {
	if s.ctx.Err() != nil {
		return errStopping
	}
	sentinel := model.ErrNotReady
	if s.stats.nodes.Load() > 0 {
		sentinel = model.ErrNoLease
	}
	if reason := s.reason.Load(); reason != nil {
		return fmt.Errorf("%w: waiting for a node: %w", sentinel, *reason)
	}
	return fmt.Errorf("%w: waiting for a node", sentinel)
}

// errTimeout is the cause when Timeout ends a wait, and never seen outside.
var errTimeout = errors.New("timeout")

// patience bounds a caller's wait.
func (s *Service) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout, errTimeout)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// gaveUp is the error of a wait that ended: because of the caller or a stop, or,
// for want of time, why.
func (s *Service) gaveUp(ctx context.Context, why error) error {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("nothing within %v: %w", s.opts.Timeout, why)
	case s.ctx.Err() != nil:
		return errStopping
	}
	return context.Cause(ctx)
}
