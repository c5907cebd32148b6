// Package uid makes the IDs of Baidu's UidGenerator: seconds since an epoch, a worker ID that each start gets anew,
// and a sequence number. In default mode an ID carries the second it was asked for. In cached mode IDs come from a
// ring that is filled ahead, and their seconds are a counter that may run ahead of the clock.
//
//	service.go  Next: take, get a worker ID with the first call, explain why there is nothing; and what is shown
//	keep.go     what a worker.Keeper grants, and how far ahead it is to reserve
//	ring.go     cached mode: a pool of held IDs that is filled with whole seconds
//
// Why no ID repeats: a Service is the generator of a worker.Keeper, whose registry is the table WORKER_NODE. Before
// a node issues the IDs of a second, its row holds a mark at or above it, durably. A worker ID is used again only
// with seconds above the mark of its previous holder. Within a process no second is put into the ring twice, whatever
// worker IDs it has, and in default mode second and sequence number are one counter that only rises.
package uid

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/background"
	"shardid/service/clockid"
)

// The modes.
const (
	// ModeDefault gives an ID the second it was asked for; at most one second's
	// sequence numbers a second.
	ModeDefault = "default"
	// ModeCached takes IDs from a ring that is filled ahead of demand.
	ModeCached = "cached"
)

// When the ring is filled.
const (
	// PutDiscard fills the ring when less than PaddingFactor is left.
	PutDiscard = "discard"
	// PutBlock fills it as soon as a second's IDs find room.
	PutBlock = "block"
)

// What happens when the ring is empty.
const (
	// TakeRefuse answers model.ErrRingEmpty at once.
	TakeRefuse = "refuse"
	// TakeWait waits until the context ends or Timeout has passed.
	TakeWait = "wait"
)

// Condition is the name under which the keeper of the worker ID reports.
const Condition = "uid node"

// Options are what a Service is made of.
type Options struct {
	Mode   string       // ModeDefault or ModeCached
	Layout idgen.Layout // one of model.UIDLayout
	Region model.Region // whose worker IDs these are
	// Timeout is how long a caller waits: for the first worker ID, in default mode for the next second, in
	// cached mode, with TakeWait or a batch larger than the ring, for the filler.
	Timeout time.Duration

	// For ModeCached only.
	BoostPower    int // the ring has 2^(SeqBits+BoostPower) IDs; 1…16
	PaddingFactor int // percent of the ring below which it is refilled; 1…99
	// ScheduleInterval refills the ring by time as well; 0 is off.
	ScheduleInterval time.Duration
	RejectPut        string // PutDiscard or PutBlock
	RejectTake       string // TakeRefuse or TakeWait

	Keeper Keeper // required
	// Idle says why the mode could not serve a first call, and is nil when it could, as
	// far as is known. It is asked while there was no call, and required.
	Idle func() error
	Now  idgen.Clock // nil: idgen.SystemClock
}

// Keeper is the worker.Keeper that has the service as its Generator, as the service knows it. Safe for concurrent use.
type Keeper interface {
	// Need begins to get a worker ID, and waits until there is one or it is known why not, until ctx ends at most.
	Need(ctx context.Context)
	// Wake has more time reserved soon. It does not wait.
	Wake()
	// Missing says why there is no worker ID, or no more time of it; nil when nothing is known.
	Missing() error
}

// Service issues UIDs. Safe for concurrent use.
type Service struct {
	opts       Options
	background *background.Group
	clock      *clockid.Service // of default mode, else nil
	ring       *ring            // of cached mode, else nil
	// take is Next without the way to a worker ID.
	take  func(ctx context.Context, count int, dst []int64) ([]int64, error)
	asked atomic.Bool // an ID was asked for
	term  atomic.Pointer[term]
	nodes atomic.Int64 // that were had since the start
}

// New starts nothing. The configuration says which options are right; the error is that of a layout that is not.
func New(opts Options) (s *Service, err error) {
	if err := opts.Layout.Check(); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = idgen.SystemClock()
	}
	s = &Service{opts: opts, background: background.NewGroup("UID service")}
	if opts.Mode == ModeCached {
		s.ring = newRing(opts, s)
		s.take = s.ring.take
		return s, nil
	}
	s.clock = &clockid.Service{Timeout: opts.Timeout, Busy: model.ErrRingEmpty, Ends: s.background.Context()}
	s.clock.Generator, err = idgen.New(idgen.Options{Layout: opts.Layout, Now: opts.Now})
	s.take = s.clock.Take
	return s, err
}

// Next issues count IDs, 1…model.MaxBatch, in ascending order and appends them to dst: all
// of them or, with an error, none. In default mode it waits for the next second when
// this one is used up; in cached mode it waits for the ring only with TakeWait, or
// for a batch that is larger than the ring less one second's IDs. The first call gets
// the worker ID, and waits for it.
//
// Errors: model.ErrNotReady, ErrNoLease, ErrRingEmpty, ErrClockBack, ErrTooEarly,
// ErrTimeExhausted, or the error of ctx.
func (s *Service) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	ids, err := s.take(ctx, count, dst)
	if err == nil {
		return ids, nil
	}
	if errors.Is(err, model.ErrNoLease) && !errors.Is(err, model.ErrRingEmpty) { // it did not wait
		if err := s.needWorker(ctx); err != nil {
			return dst, err
		}
		ids, err = s.take(ctx, count, dst)
	}
	if err != nil {
		return dst, s.explain(err)
	}
	return ids, nil
}

// needWorker has a worker ID acquired with the first call, so that a replica that is never asked for UIDs uses up
// none. It waits until there is one or it is known why not. No worker ID is used up, and no layout recorded, that
// cannot serve.
func (s *Service) needWorker(ctx context.Context) error {
	if err := s.checkTime(s.second()); err != nil {
		return err
	}
	s.asked.Store(true)
	patient, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(s.background.Context(), cancel)()
	s.opts.Keeper.Need(patient)
	return context.Cause(ctx)
}

// Ready is nil when IDs can be issued, else the error that Next would give. While none
// were asked for, it is what Idle says.
func (s *Service) Ready() error {
	var err error
	switch {
	case !s.asked.Load() && s.background.Context().Err() == nil:
		if err = s.checkTime(s.second()); err == nil {
			err = s.opts.Idle()
		}
		return err
	case s.ring != nil:
		err = s.ring.ready()
	default:
		err = s.clock.Generator.Ready()
	}
	return s.explain(err)
}

// explain says in the words of the mode why there is no ID.
func (s *Service) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case s.background.Context().Err() != nil:
		return background.ErrStopping
	case errors.Is(err, model.ErrRingEmpty) && s.ring != nil:
		runtime.Gosched() // the filler's turn, should all processors be busy taking
		err = s.ring.dry()
	case errors.Is(err, model.ErrRingEmpty):
		err = fmt.Errorf("%w: all %d IDs of the second are used up, and nothing came within %v", model.ErrRingEmpty,
			s.opts.Layout.Sequences(), s.opts.Timeout)
	}
	if !errors.Is(err, model.ErrNoLease) {
		return err
	}
	cause := s.opts.Keeper.Missing()
	switch {
	case s.nodes.Load() == 0 && cause == nil:
		return fmt.Errorf("%w: waiting for a worker ID", model.ErrNotReady)
	case s.nodes.Load() == 0:
		return fmt.Errorf("%w: waiting for a worker ID: %w", model.ErrNotReady, cause)
	}
	return clockid.WithCause(err, cause)
}

// Stop ends all background work and fails all callers that still wait. What is left in
// the ring is a gap. It may be called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	return s.background.Stop(ctx, func() {
		s.End(background.ErrStopping)
		if s.ring != nil {
			s.ring.pool.Close(background.ErrStopping)
		}
	})
}

// checkTime says whether IDs can carry a Unix second. The epoch itself is left out, because it would give worker 0 the
// ID 0. The error is model.ErrTimeExhausted.
func (s *Service) checkTime(second int64) error {
	l := s.opts.Layout
	format := func(second int64) string { return l.Time(second).Format(time.RFC3339) }
	switch {
	case second <= l.Epoch:
		return fmt.Errorf("%w: %w: %s is not after the epoch %s", model.Do("set the clock"), model.ErrTimeExhausted,
			format(second), format(l.Epoch))
	case second > l.MaxTime():
		return fmt.Errorf("%w: %w: %s is past %s, the last second of %d bits since %s", model.Do("use a layout with "+
			"more time bits, or a later epoch; IDs of two layouts can be equal, see docs/uid.md"),
			model.ErrTimeExhausted, format(second), format(l.MaxTime()), l.TimeBits, format(l.Epoch))
	}
	return nil
}

// second is the clock's, in Unix seconds.
func (s *Service) second() int64 {
	wall, _ := s.opts.Now()
	return wall / int64(time.Second)
}

// Status is how the generator is doing; its JSON is that of /api/status.
type Status struct {
	// These count since the start of the process.
	Issued  int64 `json:"issued"` // to callers
	Dropped int64 `json:"-"`      // of incomplete batches and of rings: gaps
	Refused int64 `json:"-"`      // takes that found too little in the ring

	Mode     string `json:"mode"`
	WorkerID int64  `json:"workerId"` // -1 without one
	NodeID   int64  `json:"nodeId"`   // the row in WORKER_NODE; 0 while none is held

	// For cached mode, else 0.
	RingSize   int64     `json:"ringSize"`   // IDs that the ring has room for
	RingFill   int64     `json:"ringFilled"` // IDs in it
	LastSecond time.Time `json:"lastSecond,omitzero"`
	// AheadSeconds is negative when LastSecond, the last that was filled, is behind.
	AheadSeconds int64 `json:"aheadSeconds"`

	// MarkedUntil is the last second that may be issued; the database holds it.
	MarkedUntil   time.Time `json:"markedUntil,omitzero"`
	RunwaySeconds int64     `json:"-"` // how long IDs can be issued at the present rate without the database
	// RemainingSeconds are left in the time bits. In cached mode they can be used faster than the clock goes.
	RemainingSeconds int64 `json:"remainingLifetimeSeconds"`
}

// Status returns the state; its parts are read one by one, not at one instant.
func (s *Service) Status() Status {
	now := s.second()
	out := Status{Mode: s.opts.Mode, WorkerID: -1, RemainingSeconds: remaining(s.opts.Layout, now)}
	if s.ring == nil {
		out.Issued, out.Dropped = s.clock.Issued.Load(), s.clock.Wasted.Load()
	} else {
		c := s.ring.pool.Counts()
		out.Issued, out.Dropped, out.Refused = c.Issued, c.Dropped, c.Waits
		out.RingSize, out.RingFill = s.ring.size, c.Held
	}
	t := s.term.Load()
	if t == nil {
		return out
	}
	out.WorkerID, out.NodeID = s.firstWorker()+t.node, t.node
	if s.ring != nil && s.ring.last.Load() > 0 {
		last := s.ring.last.Load()
		out.LastSecond, out.AheadSeconds = time.Unix(last, 0).UTC(), last-now
	}
	mark, position := t.mark.Load(), s.position(t)
	if mark > 0 {
		out.MarkedUntil = time.Unix(mark, 0).UTC()
	}
	out.RunwaySeconds = max(0, mark-position) / t.rate.Load()
	out.RemainingSeconds = remaining(s.opts.Layout, position)
	return out
}

// remaining is how many seconds after one are left in the time bits.
func remaining(l idgen.Layout, second int64) int64 {
	return max(0, l.MaxTime()-max(second, l.Epoch))
}
