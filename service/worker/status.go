package worker

import (
	"cmp"
	"fmt"
	"time"
)

// States of a keeper.
const (
	StateWaiting = "waiting" // no worker ID, nothing is issued
	StateServing = "serving" // the registry confirmed the lease
	StateOffline = "offline" // the registry is unreachable, the local file reserves time
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
