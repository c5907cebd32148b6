package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// lockTTL is the life of a refill lock, public surface.
	lockTTL = 60 * time.Second
	// refillTimeout bounds a pass. It is below lockTTL, and below the five seconds
	// from which on a restarted database counts as another one (model.Server): no
	// segment of a database that went back is pushed after the first one of the
	// database that came up.
	refillTimeout = 4 * time.Second
	// slowPush is how long a push may take for the next segment to be longer. A
	// busy Redis, or many lists at once, stop the growth so, far from refillTimeout,
	// at which the rest of a segment is given up.
	slowPush = refillTimeout / 8
	// passSize is how many lists one pass refills: one transaction, and a
	// pipeline for each of its other steps.
	passSize = 64
	// passIndices is how many indices the segments of a pass have, if there is more than
	// one, passesAtOnce how many passes run side by side for lists without a waiting caller,
	// and indicesAtOnce how many indices all passes under way have: half of it is left to
	// lists with a waiting caller. Redis takes 0.2 to 0.6 µs for an index, so a pass ends
	// within a second, and within refillTimeout where Redis is four times as slow.
	passIndices   = 200_000
	passesAtOnce  = 4
	indicesAtOnce = 2 * passesAtOnce * passIndices
)

// errBusy: another replica is refilling the list.
var errBusy = errors.New("another replica is refilling the list")

// manner is how a pass treats its lists. The zero value refills those that are low.
type manner struct {
	ignoreLock bool // go on although another replica has the lock: it may have died
}

// job is one list on its way through a pass.
type job struct {
	*list
	manner
	state   model.ListState
	low     bool  // a refill is due
	used    int64 // indices popped since the last segment
	segment model.Segment
	delayed bool  // pushing the segment took long
	arrived bool  // the push went well
	lost    bool  // a store failed that may have the segment
	err     error // how it ended; nil also when nothing was due
}

// refillLists runs one pass over the lists, but for those that another pass has: when that ends,
// they become due again if they are low.
func (s *Service) refillLists(lists []*list, how manner) {
	var jobs []*job
	for _, l := range lists {
		l.mu.Lock()
		if l.claimRefill() {
			jobs = append(jobs, &job{list: l, manner: how})
		} else {
			l.again = true
		}
		l.mu.Unlock()
	}
	if len(jobs) > 0 {
		s.runPass(jobs)
	}
}

// runPass is one pass over lists that are claimed, once there is room for its indices. The
// state must come before the allocation, as a push succeeds only in the life read there. It
// is read with a write: what could not be pushed is not allocated.
func (s *Service) runPass(jobs []*job) {
	room := int64(0)
	for _, j := range jobs {
		room += j.length()
	}
	room = min(room, indicesAtOnce)
	if s.room.Acquire(s.background.Context(), room) != nil {
		for _, j := range jobs {
			j.err = background.ErrStopping
			j.finish()
		}
		return
	}
	defer s.room.Release(room)
	ctx, cancel := context.WithTimeout(s.background.Context(), refillTimeout)
	defer cancel()
	if s.opts.Observe != nil {
		var end func()
		ctx, end = s.opts.Observe(ctx, len(jobs))
		defer end()
	}
	began := time.Now()
	locked, unlock := s.lock(ctx, jobs)
	seen := s.observe(ctx, locked, s.opts.Lists.Probe)
	s.push(ctx, s.allocate(ctx, seen))
	unlock()
	s.stats.passes.Observe(time.Since(began))
	s.report(jobs)
	for _, j := range jobs {
		j.finish()
	}
}

// lock takes the locks of the lists and returns the jobs that have theirs or ignore it,
// and what frees the locks, even when the pass ran out of time.
func (s *Service) lock(ctx context.Context, jobs []*job) (locked []*job, unlock func()) {
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.key.String()
	}
	token := rand.Text()
	got, err := s.opts.Locker.TryLock(ctx, names, token, lockTTL)
	var held []string
	for i, j := range jobs {
		switch {
		case err != nil:
			j.err = fmt.Errorf("lock: %w", err)
		case got[i]:
			locked, held = append(locked, j), append(held, names[i])
		case j.ignoreLock:
			locked = append(locked, j)
		default:
			j.err = errBusy
		}
	}
	return locked, func() {
		if len(held) == 0 {
			return
		}
		freeing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := s.opts.Locker.Unlock(freeing, held, token); err != nil {
			s.opts.Log.Debug("refill locks were not freed; they expire", "error", err)
		}
	}
}

// observe asks for the state of the lists and returns the jobs whose lists answered.
func (s *Service) observe(ctx context.Context, jobs []*job, ask func(context.Context, []model.ListKey) []model.ListState) (seen []*job) {
	if len(jobs) == 0 {
		return nil
	}
	keys := make([]model.ListKey, len(jobs))
	for i, j := range jobs {
		keys[i] = j.key
	}
	states := ask(ctx, keys)
	for i, j := range jobs {
		if j.state, j.err = states[i], states[i].Err; j.err != nil {
			continue
		}
		s.purged(j.key, j.state.Purged)
		j.mu.Lock()
		j.saw(j.state)
		j.low = j.isLow(j.state.Len)
		j.mu.Unlock()
		seen = append(seen, j)
	}
	return seen
}

// allocate takes a segment for each list that is low and returns the jobs that got one.
func (s *Service) allocate(ctx context.Context, jobs []*job) (got []*job) {
	var due []*job
	var reqs []model.AllocRequest
	for _, j := range jobs {
		if j.low {
			due, reqs = append(due, j), append(reqs, j.request())
		}
	}
	if len(due) == 0 {
		return nil
	}
	for i, a := range s.opts.Allocator.Allocate(ctx, reqs) {
		j := due[i]
		if j.err, j.lost = a.Err, mayBeTaken(a.Err); a.Err != nil {
			continue
		}
		s.lifted(j.key, a.Lifted)
		s.jumped(j.key, a.Jumped)
		j.segment = a.Segment
		got = append(got, j)
	}
	return got
}

// mayBeTaken says whether a segment may be allocated in spite of the error.
func mayBeTaken(err error) bool {
	var away *model.StoreError
	var idle *model.NotBegunError
	return errors.As(err, &away) && !errors.As(err, &idle)
}

// request is what to ask the database for.
func (j *job) request() model.AllocRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	grow := j.popped > 0 && j.life == j.state.Life && !j.slow
	j.used, j.popped = j.popped, 0
	return model.AllocRequest{
		Key:     j.key,
		Floor:   j.known, // the high-water mark included
		Grow:    grow,
		MaxStep: j.maxStep(),
	}
}

// push pushes the segments. After any error a segment is given up: it may or may not
// have arrived, and pushing it again could repeat it. A list that holds more than it
// held a moment ago, and a segment's worth, was refilled by another replica.
func (s *Service) push(ctx context.Context, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	reqs := make([]model.PushRequest, len(jobs))
	for i, j := range jobs {
		reqs[i] = model.PushRequest{Key: j.key, Life: j.state.Life, Segment: j.segment, Cap: max(j.segment.Len(), j.state.Len+1)}
	}
	began := time.Now()
	errs := s.opts.Lists.Push(ctx, reqs)
	delayed := time.Since(began) > slowPush
	for i, err := range errs {
		j := jobs[i]
		j.delayed = delayed
		switch {
		case err == nil:
			j.arrived = true
			s.stats.refills.Add(1)
		default:
			s.discarded(j, err)
		}
		if !errors.Is(err, model.ErrListFull) { // which is no failure
			j.err, j.lost = err, err != nil
		}
	}
}

// report tells how the jobs ended: a list that is not low works as well as one that
// was refilled, and one at its limit is no failure. What another replica is refilling
// stays as it was.
func (s *Service) report(jobs []*job) {
	if s.background.Context().Err() != nil {
		return
	}
	failed := false
	for _, j := range jobs {
		switch {
		case errors.Is(j.err, errBusy):
		case j.err == nil && j.low && j.segment.Len() == 0: // the sweep says nothing of a refill
		case j.err == nil, errors.Is(j.err, model.ErrLimitReached), errors.Is(j.err, model.ErrUnknownShard):
			s.refills.Note(j.list, nil)
			s.pops.Note(j.list, nil) // the store has answered for it
		default:
			failed = true
			s.refills.Note(j.list, fmt.Errorf("list %s: %w", j.key, j.err))
		}
	}
	if failed {
		s.stats.failedPasses.Add(1)
	}
}

// finish notes what the pass did to the list, and lets the next one begin.
func (j *job) finish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.segment.Len(); n > 0 {
		j.known = max(j.known, j.segment.Last)
		j.step = max(n, j.cfg.Step)
		j.slow = j.delayed
		j.cfg.Unconfirmed = false
	} else if j.life == j.state.Life {
		j.popped += j.used
	}
	if j.arrived {
		j.refills++
		j.depth = max(0, j.state.Len+j.segment.Len()-j.popped)
	}
	switch {
	case j.lost:
		past := j.setback()
		past.lossPause = min(max(2*past.lossPause, firstLossPause), longestLossPause)
		past.pauseUntil = time.Now().Add(past.lossPause)
	case j.arrived:
		j.setbacks = nil
	}
	j.release(j.err)
}
