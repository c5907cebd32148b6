package sequence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
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

// fence has the leases of this replica.
type fence struct {
	mu     sync.Mutex
	leases map[string]serverLease // by the life of the server
}

// serverLease is the right to ask a life of Redis for numbers.
type serverLease struct {
	number  int64     // of the lease in the database
	changes int64     // of the database server that it was had from
	began   time.Time // the call that renewed it last
	used    time.Time // when numbers were asked for last
}

// valid reports whether the lease still holds. It uses the larger of monotonic and wall-clock age, so
// neither a suspended machine nor a changed clock extends it.
func (l serverLease) valid(now time.Time) bool {
	return max(now.Sub(l.began), now.Round(0).Sub(l.began.Round(0)).Abs()) < leaseLasts
}

// mayAsk says whether numbers may be asked for now.
func (s *Service) mayAsk(g grant, now time.Time) bool {
	if g.term == 0 || s.opts.Alone {
		return g.term != 0
	}
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	l, found := s.fence.leases[g.server]
	if !found || l.number != g.number || l.changes != g.changes || !l.valid(now) {
		return false
	}
	l.used = now
	s.fence.leases[g.server] = l
	return true
}

// livesInUse are those that were asked lately, and what else is given.
func (s *Service) livesInUse(more map[string]bool) []string {
	names, now := slices.Collect(maps.Keys(more)), time.Now()
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	for server, l := range s.fence.leases {
		if now.Sub(l.used) < idleAfter && !more[server] {
			names = append(names, server)
		}
	}
	return names
}

// keepLeases renews what is in use.
func (s *Service) keepLeases() {
	if err := s.renewLeases(nil); err != nil {
		s.opts.Log.Debug("leases of sequences were not renewed", "error", err)
	}
}

// renewLeases renews the leases of lives that were asked lately, and of others, and takes over which
// spaces there are. Sections of those that are gone, or are others by now, are forgotten before a
// lease is longer: so a lease that lasts knows no space that was gone when it began.
func (s *Service) renewLeases(more map[string]bool) error {
	servers := s.livesInUse(more)
	ctx, cancel := context.WithTimeout(s.background.Context(), callTimeout)
	defer cancel()
	began := time.Now()
	f, err := s.opts.Allocator.RenewFence(ctx, servers, s.opts.Store.Place())
	if err != nil {
		return fmt.Errorf("renew the leases of sequences: %w", err)
	}
	spaces := make(map[string]model.Space, len(f.Spaces))
	for _, space := range f.Spaces {
		spaces[space.Name] = space
	}
	s.lane.takeSpaces(spaces, began)
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	for server, number := range f.Numbers {
		l := s.fence.leases[server]
		if more[server] {
			l.used = began
		}
		if !began.Before(l.began) { // another renewal may have begun later, and been faster
			l.number, l.changes, l.began = number, f.Changes, began
		}
		s.fence.leases[server] = l
	}
	maps.DeleteFunc(s.fence.leases, func(_ string, l serverLease) bool { return began.Sub(l.used) > 2*idleAfter })
	return nil
}

// takeSpaces takes over which spaces there are, as a renewal found them, unless one that began later
// was faster. It drops the sections of spaces that are gone, or have another number of sections: what
// waits for these is grouped again. A space that was added again with as many sections keeps them
// here, since their leases ended with its deletion.
func (l *lane) takeSpaces(spaces map[string]model.Space, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began.Before(l.spacesAt) {
		return
	}
	l.spacesAt = began
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
