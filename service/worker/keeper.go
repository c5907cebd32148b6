// Package worker keeps a generator of snowflakes or UIDs supplied with a worker ID. Seven kinds
// of registry give them; one [Keeper] acquires, renews and releases for them all.
//
// # Why no ID repeats
//
// Before the generator uses a millisecond, that millisecond has been reserved: the
// keeper stores a bound a few seconds ahead of the clock in the registry, and in a
// file on this machine where the registry's kind has one, and only then lets the
// generator go up to it. The next holder of the worker ID starts above the
// bound that is stored. So it does not matter how long a process was stopped, what
// its clock did meanwhile, or whether it noticed that its lease had gone: each
// millisecond of each worker ID belongs to one lease.
//
// With a file, the registry may be unreachable: it was told a far bound (Expires) that
// no other instance starts below, and the file keeps the near one (Reserved) that this
// machine itself starts above. Without one, both are the near bound.
//
// Clocks matter in one place only: a registry that lost its state cannot vouch for
// what was reserved. Then the keeper waits until everything that could have been
// reserved has passed, which it can tell because no instance reserves while its
// clock is further from the registry's than max_clock_offset.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// Condition is the name under which the keeper of the snowflake mode reports.
const Condition = "snowflake worker ID"

const (
	// every is the pause between two renewals: Leaf reports every 3 s.
	every = 3 * time.Second
	// retry is the longest pause after a failure, so that a store that is back is noticed
	// soon.
	retry = time.Second
	// callTimeout bounds each call of the registry, and that of the database before a renewal with it.
	callTimeout = 2 * time.Second
	// stopTimeout bounds the release at the end.
	stopTimeout = 3 * time.Second
	// Ahead is how far, by the clock, time is reserved at most, and so how long a
	// restart after a crash may have to wait: every, and a call that hangs.
	Ahead = 6 * time.Second
	// Forever is the TTL of leases that end with what is reserved.
	Forever = 100 * 365 * 24 * time.Hour
)

// Options of a Keeper. Condition, Registry, Generator, Layout, Reporter, Log and
// Now are required.
type Options struct {
	Condition string // the name under which it reports
	Mode      string // of the registry, for messages
	Registry  Registry
	Generator Generator
	// Reserve says up to when time is to be reserved, Unix ms, by what the clock says and what is
	// reserved. nil is the clock's and Ahead, for IDs that carry the clock's time.
	Reserve func(now, reserved int64) int64
	// OpenFile opens the local worker file; nil for registries without one. Until it
	// succeeds there is no worker ID.
	OpenFile func(address string) (File, error)
	// Layout says whether the layout of the IDs is recorded in the database, and for how
	// long IDs may have been issued; with record it is recorded now unless it was. Errors:
	// model.ErrLayoutChanged, *model.StoreError.
	Layout func(ctx context.Context, record bool) (age time.Duration, recorded bool, err error)
	// Claim tells the database until when IDs may be issued, and with which registry; nil where
	// there is no other registry. Errors: model.ErrRegistryInUse when others claim another
	// registry, model.ErrLeaseLost when they did meanwhile, *model.StoreError.
	Claim func(context.Context, model.WorkerClaim) (model.ClaimGrant, error)
	// Expiry is how long an instance continues without the database, and with a file without its
	// registry; at least twice Ahead.
	Expiry time.Duration
	// TTL is how long the registry holds a lease without a file for its owner, from
	// the start of the call that renewed it; Forever where it ends with what is reserved.
	TTL time.Duration
	// MaxClockOffset is how far the clock may be from the registry's.
	MaxClockOffset time.Duration
	Reporter       background.Reporter // told how the worker ID is doing
	Log            *slog.Logger
	// Now is the wall clock in Unix nanoseconds and the monotonic clock, as
	// idgen.Clock.
	Now func() (int64, time.Duration)
}

// Keeper holds one worker ID for a generator. Safe for concurrent use.
type Keeper struct {
	opts       Options
	background *background.Group

	needed   atomic.Bool   // an ID was asked for
	due      chan struct{} // of one value: a step is due, see Wake
	answered chan struct{} // closed, by answer, once a step has done for the first ID what it could
	answer   sync.Once

	mu       sync.Mutex
	status   Status
	trustEnd time.Duration // by the monotonic clock

	// What follows belongs to the goroutine that runs step, and to Stop after that.
	owner model.Owner
	file  File
	clock clockReading
	term
	admission
	databaseClaim
}

// term is the time for which the generator has a worker ID: the present one, or the last.
type term struct {
	lease   model.Lease
	held    bool // the generator has it
	offline bool // it came from the file and the registry has not confirmed it
	denied  bool // the registry has answered that the file's worker ID is not ours
	// confirmed is the Reserved of lease that the registry stored.
	confirmed int64
	trust     time.Duration // when, by the monotonic clock, the grant ends
}

// admission is what is known of the layout of the IDs.
type admission struct {
	// allowed says that IDs may be issued: their layout is recorded. Before, a lease is kept
	// but not used, so that a replica that nobody asks decides on no layout.
	allowed bool
	// layoutSince is since when, by the monotonic clock, IDs may have been issued; nil
	// while the database has not said that.
	layoutSince *time.Duration
}

// New starts nothing.
func New(opts Options) *Keeper {
	if opts.Reserve == nil {
		opts.Reserve = func(now, _ int64) int64 { return now + Ahead.Milliseconds() }
	}
	status := Status{Mode: opts.Mode, State: StateWaiting, WorkerID: -1}
	return &Keeper{opts: opts, background: background.NewGroup("worker ID keeper"), status: status,
		due: make(chan struct{}, 1), answered: make(chan struct{})}
}

// Start begins to acquire a worker ID for the owner and keeps it until Stop. A
// second call, and one after Stop, does nothing.
func (k *Keeper) Start(address, token string) {
	k.background.Start(func() {
		k.owner = model.Owner{Address: address, Token: token}
		k.mu.Lock()
		k.status.Address = address
		k.mu.Unlock()
		for ctx := k.background.Context(); ctx.Err() == nil; {
			began := time.Now()
			background.Pause(ctx, k.step(ctx)-time.Since(began), k.due)
		}
	})
}

// Need says that an ID is asked for. The first call lets the layout be recorded, and waits
// until IDs may be issued or it is known why not, until ctx ends at most, as do others until then.
func (k *Keeper) Need(ctx context.Context) {
	if !k.needed.Swap(true) {
		k.Wake()
	}
	select {
	case <-k.answered:
	case <-ctx.Done():
	case <-k.background.Context().Done():
	}
}

// Wake takes the next step now: more time is to be reserved. It does not wait.
func (k *Keeper) Wake() {
	select {
	case k.due <- struct{}{}:
	default:
	}
}

// Stop gives the worker ID back and waits, for seconds at most; it tries although
// ctx has ended. It may be called twice, and without Start.
func (k *Keeper) Stop(ctx context.Context) error {
	if err := k.background.Stop(context.WithoutCancel(ctx), nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := k.release(ctx); err != nil {
		k.opts.Log.Warn("the next start waits until what is reserved has passed: the worker ID was not given back",
			"error", err)
	}
	if k.file == nil {
		return nil
	}
	return k.file.Close()
}

// release ends the term and stores how far it really went, so that a restart need not
// wait for the rest of the reservation, nor the instances of another registry.
func (k *Keeper) release(ctx context.Context) error {
	return errors.Join(k.giveBack(ctx), k.unclaim(ctx))
}

func (k *Keeper) giveBack(ctx context.Context) error {
	if !k.held {
		return nil
	}
	k.end(errors.New("shutting down"))
	lease := k.lease
	lease.Reserved = max(k.opts.Generator.LastIssued(), lease.After)
	lease.Expires = lease.Reserved
	if k.file == nil || !k.allowed {
		return k.giveUp(ctx, lease)
	}
	// Long enough for a restart to find its ID while the registry is unreachable.
	wall, _ := k.opts.Now()
	lease.Expires = max(lease.Reserved, min(k.lease.Expires, millis(wall)+restartGrace.Milliseconds()))
	err := k.file.Store(lease)
	if err != nil || k.offline {
		return err
	}
	return k.giveUp(ctx, lease)
}

// giveUp releases a lease. A file does not go on with one that turns out to be another's.
func (k *Keeper) giveUp(ctx context.Context, lease model.Lease) error {
	err := k.opts.Registry.Release(ctx, lease)
	if errors.Is(err, model.ErrLeaseLost) {
		return k.disown()
	}
	return err
}

// Missing says why there is no worker ID, or no more time of it; nil when nothing is known.
func (k *Keeper) Missing() error { return k.Status().Err }

// Ready is nil while the generator can issue, else it wraps model.ErrNotReady and
// says what is waited for.
func (k *Keeper) Ready() error {
	s := k.Status()
	if s.State == StateServing || s.State == StateOffline {
		return nil
	}
	return fmt.Errorf("%w: %w", model.ErrNotReady, cmp.Or(s.Err, errNoneYet))
}

var errNoneYet = errors.New("a worker ID has not been acquired yet")

func millis(wall int64) int64 { return wall / int64(time.Millisecond) }

// Registry gives worker IDs. Safe for concurrent use, over processes too. It owns
// no goroutine and keeps no state of its own beyond its connection; only its own
// clock decides whether a lease has run out.
type Registry interface {
	// Acquire gets a worker ID for the owner. Nothing may be issued with it before
	// a Renew. Called again with the same token it returns the same lease, so a
	// call whose answer was lost may be repeated. Errors: model.ErrNoWorkerID,
	// model.ErrAddressTaken, *model.StoreError.
	Acquire(ctx context.Context, owner model.Owner) (model.Lease, error)
	// Renew stores the lease's Reserved, Expires and Reported, durably and never
	// lowering the first two, if the registry still holds it for the owner's
	// token. Errors: model.ErrLeaseLost when it does not, then another may hold
	// it; *model.StoreError when that is not known.
	Renew(ctx context.Context, lease model.Lease) (model.Lease, error)
	// Release gives the lease up: it stores its Reserved, the last time issued, and
	// its Expires, before which only the same identity may follow, both as given.
	// Errors: those of Renew.
	Release(ctx context.Context, lease model.Lease) error
}

// File keeps a worker ID and its reservation on this machine's disk. Safe for one
// process at a time, which it makes sure of by a lock.
type File interface {
	// Identity is that of the data folder.
	Identity() string
	// Load returns the lease of the last life, and false when there was none. Its After is its Reserved: all of it
	// may have been used.
	Load() (model.Lease, bool)
	// Store writes the lease durably: when it returns nil, a power cut does not
	// undo it.
	Store(lease model.Lease) error
	// Close gives the folder free. It may be called twice.
	Close() error
}

// Generator issues IDs inside the bounds it is granted; see idgen.Generator.
type Generator interface {
	// Begin takes up a worker ID whose IDs up to Unix ms after may be in use.
	Begin(workerID int, after int64)
	// Extend allows IDs up to Unix ms until, as long as the monotonic clock has not
	// reached trust.
	Extend(until int64, trust time.Duration)
	// End gives the worker ID up; no ID of it is issued afterwards.
	End(reason error)
	// LastIssued is the time of the latest ID, Unix ms.
	LastIssued() int64
}

// States of a keeper.
const (
	StateWaiting = "waiting" // no worker ID, nothing is issued
	StateServing = "serving" // the registry confirmed the lease
	StateOffline = "offline" // the last step failed, what is reserved is still used
)

// Status is a keeper's view of its lease. Times are zero when there is none.
type Status struct {
	Mode     string // of the registry
	Address  string // of this instance
	State    string
	WorkerID int // -1 without one
	// After: IDs carry a later time. Reserved: IDs carry at most this time. Both by this machine's clock.
	After, Reserved time.Time
	Trust           time.Duration // how long the worker ID is trusted without a renewal
	ClockOffset     time.Duration // how far this clock is ahead of the registry's; 0 when that has none
	Err             error         // the latest failure
}

// Status returns the present state.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	if s.State == StateWaiting {
		return s
	}
	wall, mono := k.opts.Now()
	s.Trust = max(k.trustEnd-mono, 0)
	now := time.UnixMilli(millis(wall))
	switch {
	case !now.After(s.After):
		s.State = StateWaiting
		s.Err = fmt.Errorf("worker ID %d may have been used up to %s: %v to go", s.WorkerID,
			s.After.Format(time.RFC3339), s.After.Sub(now)+time.Millisecond)
	case s.Trust == 0, now.After(s.Reserved):
		s.State = StateWaiting
		s.Err = cmp.Or(s.Err, fmt.Errorf("worker ID %d was not renewed in time", s.WorkerID))
	}
	return s
}

// note publishes the outcome of a step and tells the reporter.
func (k *Keeper) note(err error) {
	s := Status{Mode: k.opts.Mode, Address: k.owner.Address, State: StateWaiting, WorkerID: -1,
		ClockOffset: k.clock.offset}
	if k.held {
		s.State, s.WorkerID = StateServing, k.lease.WorkerID
		s.After, s.Reserved = at(k.lease.After), at(k.lease.Reserved)
		if k.offline || err != nil {
			s.State = StateOffline
		}
	}
	s.Err = err
	k.mu.Lock()
	k.status, k.trustEnd = s, k.trust
	k.mu.Unlock()
	k.opts.Reporter.Report(k.opts.Condition, err)
}

// at is zero for no time, and for a bound that never comes.
func at(ms int64) time.Time {
	const year9999 = 253402300799999
	if ms == 0 || ms > year9999 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
