package workerid

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"shardid/model"
)

// Moment is what a store says when it is read. Times are Unix ms.
type Moment struct {
	Now int64 // the store's clock
	// KeptSince is since when the store has forgotten nothing for sure; 0 for ever.
	KeptSince int64
	Registry  string // the identity of the registry, see model.Lease
}

// Take decides which worker ID an owner gets, and what its record becomes.
type Take func(Choice) (Slot, Record, error)

// Edit says what the record of a lease becomes.
type Edit func(Slot) (Record, error)

// Store keeps the records. Errors of its methods are those that its tree or table has; what the
// functions given to it return is passed on. Safe for concurrent use, over processes too.
type Store interface {
	// Take calls take with what the owner may get, and stores what that gives. It calls take again when
	// another owner was quicker.
	Take(ctx context.Context, owner model.Owner, take Take) error
	// Edit replaces the record of a lease by what edit gives, and gives the moment of that. The slot is
	// zero where nobody has the worker ID. It calls edit again when the record has changed meanwhile.
	// The KeptSince it gives may be 0, where that costs a request.
	Edit(ctx context.Context, lease model.Lease, edit Edit) (Moment, error)
}

// ErrBusy reports a worker ID that changed each time it was to be written.
var ErrBusy = errors.New("others were quicker each time")

const (
	// settleTries bounds how often a call starts again because others were quicker. Of racers for one worker ID one
	// wins each round, and they choose from more and more, so even 1024 racers need far fewer.
	settleTries = 64
	// settlePause keeps a conflict that does not go away from being a busy loop.
	settlePause = 5 * time.Millisecond
)

// Settle calls once, for a store, until it gives no error of which quicker says that another owner was quicker.
// Errors: ErrBusy, those of once and ctx.
func Settle(ctx context.Context, quicker func(error) bool, once func(try int) error) (err error) {
	for try := range settleTries {
		if err = once(try); !quicker(err) {
			return err
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: %w", ErrBusy, err)
}

// Choice is what a store has for one owner, at one moment.
type Choice struct {
	Moment
	// Slots are the worker IDs that the owner may have had, by its token, its identity or its address, and those
	// that may be given to any owner, in order. Those that live may be among them.
	Slots []Slot
	// Among is how many of those that are free an owner chooses from: more, the more owners race.
	Among int
}

// Registry gives worker IDs out of the records of a store; see worker.Registry of the service. Safe
// for concurrent use, over processes too.
type Registry struct {
	store  Store
	margin int64 // ms, see Record.FreeAt
}

// NewRegistry makes a registry over a store. Owners of other addresses leave a lease alone for margin
// after it has run out, as two servers' clocks may differ by that.
func NewRegistry(store Store, margin time.Duration) Registry {
	return Registry{store, margin.Milliseconds()}
}

// Acquire gets the owner the worker ID that it holds or had last, else one that its address had, else
// one that is free. Nothing may be issued with it before a Renew. Called again with the same token it
// gets the same. Errors: model.ErrInvalidArgument, model.ErrNoWorkerID, those of the store.
func (r Registry) Acquire(ctx context.Context, owner model.Owner) (lease model.Lease, err error) {
	if _, _, err := net.SplitHostPort(owner.Address); err != nil || owner.Token == "" {
		return model.Lease{}, fmt.Errorf("%w: the owner %+v has no token, or its address is not ip:port",
			model.ErrInvalidArgument, owner)
	}
	err = r.store.Take(ctx, owner, func(c Choice) (Slot, Record, error) {
		slot, err := r.choose(c, owner)
		if err != nil {
			return slot, Record{}, err
		}
		next := slot.Record
		if !slot.HeldBy(owner) || slot.Ended {
			next = next.Taken(owner, c.Now)
		}
		lease = leaseOf(slot, next, c.Moment, model.Lease{Owner: owner, After: next.Reserved})
		return slot, next, nil
	})
	if err != nil {
		return model.Lease{}, err
	}
	return lease, nil
}

func (r Registry) choose(c Choice, owner model.Owner) (Slot, error) {
	if i := findKnown(c.Slots, owner, c.Now); i >= 0 {
		return c.Slots[i], nil
	}
	i, next := findFree(c.Slots, c.Now, r.margin, c.Among)
	switch {
	case i < 0 && next == 0:
		return Slot{}, model.ErrNoWorkerID
	case i < 0:
		return Slot{}, fmt.Errorf("%w: %w: all %d are leased, the next one may run out at %s",
			model.Do("stop instances that are not needed, or wait until those that are gone have been silent long "+
				"enough"),
			model.ErrNoWorkerID, len(c.Slots), time.UnixMilli(next).UTC().Format(time.RFC3339))
	}
	return c.Slots[i], nil
}

// Renew stores Reserved, Expires and Reported of the lease; the first two never go down. It answers
// what is stored. Errors: model.ErrLeaseLost when the lease is not the owner's any more, those of the
// store when that is not known.
func (r Registry) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	var slot Slot
	var next Record
	m, err := r.store.Edit(ctx, lease, func(s Slot) (Record, error) {
		if !s.HeldBy(lease.Owner) || s.Ended {
			return Record{}, lost(lease)
		}
		slot, next = s, s.Renewed(lease)
		return next, nil
	})
	if err != nil {
		return model.Lease{}, err
	}
	m.KeptSince = max(m.KeptSince, lease.KeptSince)
	return leaseOf(slot, next, m, lease), nil
}

// Release gives the lease up: the same identity may follow at once, above its Reserved, the last time
// issued; others follow at and above its Expires. Errors: those of Renew.
func (r Registry) Release(ctx context.Context, lease model.Lease) error {
	_, err := r.store.Edit(ctx, lease, func(s Slot) (Record, error) {
		if !s.HeldBy(lease.Owner) || s.Ended {
			return Record{}, lost(lease)
		}
		return s.Released(lease), nil
	})
	return err
}

func lost(l model.Lease) error {
	return fmt.Errorf("%w: worker ID %d is not held for %s any more", model.ErrLeaseLost, l.WorkerID, l.Owner.Address)
}

// leaseOf is the lease as its record has it now.
func leaseOf(s Slot, r Record, m Moment, l model.Lease) model.Lease {
	l.WorkerID, l.Reserved, l.Expires, l.Reported = s.ID, r.Reserved, r.Expires, r.Reported
	l.ServerTime, l.KeptSince = m.Now, m.KeptSince
	if m.Registry != "" {
		l.Registry = m.Registry
	}
	return l
}
