// Package uid makes the IDs of Baidu's UidGenerator: seconds since an epoch, a
// worker ID that each start gets anew, and a sequence number. In default mode an ID
// carries the second it was asked for. In cached mode IDs come from a ring that is
// filled ahead, and their seconds are a counter that may run ahead of the clock.
//
// It knows nothing of HTTP and nothing of the database behind its interface
// Nodes. The pieces:
//
//	service.go  Next: validate, take, explain why there is nothing
//	default.go  default mode: the clock and one counter
//	cached.go   cached mode: fill the ring
//	ring.go     the ring of prepared IDs, usable by itself
//	node.go     get a node, keep its mark, get another when it is lost
//	status.go   what is shown, what is counted, the warnings
//
// Why no ID repeats: a worker ID and a second belong to one node for ever. Before a
// node issues the IDs of a second, its row holds a mark at or above it, durably. A
// worker ID is used again only with seconds above the mark of its previous holder
// before. Within a node no second is put into the ring twice, and in default mode
// second and sequence number are one counter that only rises.
package uid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/background"
)

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

// Options are what a Service is made of.
type Options struct {
	Mode   string // ModeDefault or ModeCached
	Layout model.UIDLayout
	Region model.Region // whose worker IDs these are
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

	// RecordLayout records Layout in the database, once, or refuses it. No node is
	// registered before it succeeds. It is required. Errors: *model.LayoutChangedError,
	// *model.StoreError.
	RecordLayout func(context.Context) error

	Nodes Nodes
	// Idle says why the mode could not serve a first call, and is nil when it could, as
	// far as is known. It is asked while there was no call; nil stands for one that
	// always could.
	Idle     func() error
	Reporter background.Reporter
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now

	clock idgen.Clock // reads Now
}

// Service issues UIDs. Safe for concurrent use.
type Service struct {
	opts       Options
	background *background.Group
	ring       *Ring // nil in default mode

	started  atomic.Bool   // Start was called
	needed   atomic.Bool   // IDs were asked for since
	opened   chan struct{} // closed when the first node serves or cannot be had
	openOnce sync.Once

	grant  atomic.Pointer[grant] // nil while no node is held
	reason atomic.Pointer[error] // why none is; nil at the start
	stats  counters
	// fillFails: a failed fill was reported, of whichever node.
	fillFails atomic.Bool
	life      lifetime
}

// New validates the options and starts nothing. Errors: model.ErrInvalidArgument.
func New(opts Options) (*Service, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.clock = func() (int64, time.Duration) { return opts.Now().UnixNano(), 0 }
	if opts.Now == nil {
		opts.Now, opts.clock = time.Now, idgen.SystemClock()
	}
	s := &Service{opts: opts, background: background.NewGroup("UID service"), opened: make(chan struct{})}
	if opts.Mode == ModeCached {
		size := opts.Layout.Sequences() << opts.BoostPower
		r, err := NewRing(size, max(1, size*int64(opts.PaddingFactor)/100))
		if err != nil {
			return nil, err
		}
		s.ring = r
	}
	return s, nil
}

// maxRing bounds the ring, as a power of two: its IDs are not stored, but more than
// 2^30 of them would be a mistake.
const maxRing = 30

func (o Options) validate() error {
	if err := o.Layout.Check(); err != nil {
		return err
	}
	switch {
	case o.RecordLayout == nil:
		return fmt.Errorf("%w: nothing records the UID layout", model.ErrInvalidArgument)
	case o.Mode != ModeDefault && o.Mode != ModeCached:
		return fmt.Errorf("%w: UID mode %q is neither default nor cached", model.ErrInvalidArgument, o.Mode)
	case o.Timeout <= 0:
		return fmt.Errorf("%w: UID timeout %v is not positive", model.ErrInvalidArgument, o.Timeout)
	case o.Place.Type != model.NodeContainer && o.Place.Type != model.NodeActual:
		return fmt.Errorf("%w: node type %d is neither %d nor %d", model.ErrInvalidArgument, o.Place.Type, model.NodeContainer, model.NodeActual)
	case o.Mode == ModeDefault:
		return nil
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

// Next issues count IDs, 1…model.MaxBatch, in ascending order and appends them to dst: all
// of them or, with an error, none. In default mode it waits for the next second when
// this one is used up; in cached mode it waits for the ring only with TakeWait, or
// for the rest of a batch that is larger than the ring. The first call after Start gets
// the worker ID, and waits for it.
//
// Errors: model.ErrNotReady, ErrNoLease, ErrRingEmpty, ErrClockBack,
// ErrTimeExhausted, ErrInvalidArgument, or the error of ctx.
func (s *Service) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count < 1 || count > model.MaxBatch {
		return dst, fmt.Errorf("%w: count %d is not in 1…%d", model.ErrInvalidArgument, count, model.MaxBatch)
	}
	if s.ring != nil && count == 1 {
		if id, ok := s.ring.Take(); ok {
			return append(dst, id), nil
		}
	}
	if s.ring != nil || s.grant.Load() == nil {
		if err := s.open(ctx); err != nil {
			return dst, err
		}
	}
	if s.ring == nil {
		return s.nextByClock(ctx, count, dst)
	}
	return s.nextFromRing(ctx, count, dst)
}

// open begins to get a node at the first call, so that a replica that is never asked for
// UIDs uses up no worker ID. Calls wait until the node serves or cannot be had, until
// Timeout at most, and later ones not at all.
func (s *Service) open(ctx context.Context) error {
	select {
	case <-s.opened:
		return nil
	default:
	}
	if !s.started.Load() {
		return nil
	}
	if err := s.opts.Layout.CheckSecond(s.opts.Now().Unix()); err != nil {
		return err // no worker ID is used up, and no layout recorded, that cannot serve
	}
	s.needed.Store(true)
	s.background.Start(s.run)
	ctx, cancel := s.patience(ctx)
	defer cancel()
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errTimeout) {
		s.markOpened()
	}
	return s.gaveUp(ctx, s.noGrant())
}

func (s *Service) markOpened() { s.openOnce.Do(func() { close(s.opened) }) }

// Ready is nil when IDs can be issued, else the error that Next would give. While none
// were asked for, it is what Idle says.
func (s *Service) Ready() error {
	g := s.grant.Load()
	switch {
	case s.started.Load() && !s.needed.Load() && s.background.Context().Err() == nil:
		if err := s.opts.Layout.CheckSecond(s.opts.Now().Unix()); err != nil || s.opts.Idle == nil {
			return err
		}
		return s.opts.Idle()
	case g == nil:
		return s.noGrant()
	case s.ring == nil:
		return s.explainByClock(g, g.byClock.Ready())
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
	if s.background.Context().Err() != nil {
		return background.ErrStopping
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
	stop := context.AfterFunc(s.background.Context(), cancel)
	return ctx, func() { stop(); cancel() }
}

// gaveUp is the error of a wait that ended: because of the caller or a stop, or,
// for want of time, why.
func (s *Service) gaveUp(ctx context.Context, why error) error {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return fmt.Errorf("nothing within %v: %w", s.opts.Timeout, why)
	case s.background.Context().Err() != nil:
		return background.ErrStopping
	}
	return context.Cause(ctx)
}

// Nodes gives worker IDs to starts. Safe for concurrent use, over processes too.
type Nodes interface {
	// RegisterNode gets a worker ID for a start and stores its UsedUntil. Called
	// again with the same token it returns the same node, so a call whose answer
	// was lost may be repeated. Errors: model.ErrNoWorkerID, *model.StoreError.
	RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error)
	// MarkNode raises the highest Unix second that the node may issue, durably.
	// Errors: model.ErrLeaseLost when the row is gone or another's;
	// *model.StoreError when it is not known whether the mark was raised.
	MarkNode(ctx context.Context, node model.Node, until int64) error
}

// The conditions that the service reports.
const (
	ConditionNode = "uid node" // getting a worker ID
	ConditionMark = "uid mark" // raising the mark of the seconds that may be issued
	ConditionFill = "uid fill" // filling the ring
)
