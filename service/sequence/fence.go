package sequence

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"shardid/model"
)

const (
	// leaseLasts is for how long a lease lets a replica ask a life of Redis for numbers, from the
	// beginning of the call that renewed it on.
	leaseLasts = 10 * time.Second
	// openAfter is how long a term must have been known to be opened: by then leases of earlier
	// ones have ended. Two clocks do not run so differently that the rest is needed.
	openAfter  = leaseLasts + leaseLasts/20
	renewEvery = 3 * time.Second
	// idleAfter is when a life of Redis that was not asked has no lease any more.
	idleAfter = time.Minute
	// unknownEvery is how often a space that is not known is looked for.
	unknownEvery = time.Second
)

// serverLease is the right to ask a life of Redis for numbers.
type serverLease struct {
	number  int64         // of the lease in the database
	changes int64         // of the database server that it was had from
	began   moment        // the call that renewed it last
	used    time.Duration // when numbers were asked for last, by the monotonic clock
}

// moment is a time by both clocks.
type moment struct{ wall, mono time.Duration }

func (s *Service) now() moment {
	wall, mono := s.opts.Now()
	return moment{time.Duration(wall), mono}
}

// valid reports whether the lease lasts for longer than left. It uses the larger of monotonic and wall-clock age,
// so neither a suspended machine nor a changed clock extends it.
func (l serverLease) valid(now moment, left time.Duration) bool {
	return max(now.mono-l.began.mono, (now.wall-l.began.wall).Abs()) < leaseLasts-left
}

// mayAsk says whether numbers may be asked for now. Callers hold mu.
func (l *lane) mayAsk(g grant, now moment) bool {
	if g.term == 0 || l.svc.opts.Alone {
		return g.term != 0
	}
	lease := l.leases[g.server]
	if lease == nil || lease.number != g.number || lease.changes != g.changes || !lease.valid(now, 0) {
		return false
	}
	lease.used = now.mono
	return true
}

// renewLeases renews the leases of lives that were asked lately, and of others, and takes over which
// spaces there are. Sections of those that are gone, or are others by now, are forgotten before a
// lease is longer: so a lease that lasts knows no space that was gone when it began.
func (s *Service) renewLeases(more map[string]bool) error {
	l, began := &s.lane, s.now()
	servers := slices.Collect(maps.Keys(more))
	l.mu.Lock()
	maps.DeleteFunc(l.leases, func(_ string, lease *serverLease) bool { return began.mono-lease.used >= idleAfter })
	for server := range l.leases {
		if !more[server] {
			servers = append(servers, server)
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.background.Context(), callTimeout)
	defer cancel()
	f, err := s.opts.Allocator.RenewFence(ctx, servers, s.opts.Store.Place())
	if err != nil {
		l.noteFailure(err)
		return fmt.Errorf("the leases of sequences cannot be renewed: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = nil
	l.takeSpaces(f.Spaces, began.mono)
	for server, number := range f.Numbers {
		lease := l.leases[server]
		if lease == nil {
			lease = &serverLease{}
			l.leases[server] = lease
		}
		if more[server] {
			lease.used = began.mono
		}
		if began.mono >= lease.began.mono { // another renewal may have begun later, and been faster
			lease.number, lease.changes, lease.began = number, f.Changes, began
		}
	}
	return nil
}

// noteFailure notes why the spaces are not known anew.
func (l *lane) noteFailure(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = cmp.Or(err, l.failure)
}

// takeSpaces takes over which spaces there are, as a renewal found them, unless one that began later
// was faster. It drops the sections of spaces that are gone, or have another number of sections: what
// waits for these is grouped again. A space that was added again with as many sections keeps them
// here, since their leases ended with its deletion. Callers hold mu.
func (l *lane) takeSpaces(found []model.Space, began time.Duration) {
	if began < l.spacesAt {
		return
	}
	l.spacesAt = began
	spaces := make(map[string]model.Space, len(found))
	for _, space := range found {
		spaces[space.Name] = space
	}
	l.svc.spaces.Store(&spaces)
	for key, s := range l.sections {
		if space, found := spaces[key.Space]; found && space.Sections == s.space.Sections {
			s.space = space
			continue
		}
		l.svc.failing.Note(key, nil)
		delete(l.sections, key)
		l.requeue(s)
	}
}
