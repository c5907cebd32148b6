package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"shardid/model"
)

// A pop that leaves a list low, and the sweep, queue it for a refill. A pass takes up to 64 lists of the
// queue, those with a waiting caller first, and goes four steps with them: lock, state, allocate, push. The
// state must come before the allocation, as a push succeeds only in the life read there. It is read with a
// write: what could not be pushed is not allocated. After any error a segment is given up: it may or may not
// have arrived, and pushing it again could repeat it.
//
// A list that could not be refilled tries again after a pause of its own, without a caller.
const (
	// lockTTL is the life of a refill lock, public surface.
	lockTTL = 60 * time.Second
	// refillTimeout bounds a pass. It is below lockTTL, and below the five seconds from which on a restarted
	// database counts as another one (model.Server): no segment of a database that went back is pushed after
	// the first one of the database that came up.
	refillTimeout = 4 * time.Second
	// lockTimeout and askTimeout bound the locking and the reading of the state: a silent server of a Redis Cluster
	// must leave those time who wait for lists of the others.
	lockTimeout = 250 * time.Millisecond
	askTimeout  = time.Second
	// passSize is how many lists a pass refills: one transaction, and few pipelines for each of its other steps.
	// passIndices is how many indices its segments have, if there is more than one. Redis takes 0.2 to 0.6 µs
	// for an index, so passesAtOnce of them end within a quarter of a second, far from refillTimeout, at which the
	// rest of a segment is given up.
	passSize     = 64
	passIndices  = 200_000
	passesAtOnce = 2
	// maxJitter spreads the replicas that see the same low watermark.
	maxJitter = 20 * time.Millisecond

	// lockPatience is how long callers wait for another replica's refill before its lock is ignored: it may
	// have died. Without a caller the lock is ignored when no pass takes that long. The cap of a push keeps
	// the list from being over-filled.
	lockPatience = 500 * time.Millisecond
	lockedPause  = 100 * time.Millisecond
	// retryPause follows a failure that has cost nothing, half of it by chance.
	retryPause = time.Second
	// firstLoss follows a segment that was lost on its way: nobody knows whether the database, or the list,
	// has it. Another loss doubles the pause up to longestLoss, so that an hour of them costs 360 segments.
	firstLoss   = 250 * time.Millisecond
	longestLoss = 10 * time.Second
)

// errBusy: another replica is refilling the list.
var errBusy = errors.New("another replica is refilling the list")

// phase is where a list is between two refills.
type phase int

const (
	idle    phase = iota
	queued        // for a pass
	running       // in a pass
	paused        // after a pass that failed: it queues itself
)

// refill is what is known of the refills of a list.
type refill struct {
	phase       phase
	err         error         // why the last one, or the last pop, failed; nil since one went well
	loss        time.Duration // the pause after the last segment that was lost; 0 since one arrived
	lockedSince time.Time     // another replica has had the lock since, and the list no index; zero without one
	segments    int64         // pushed by this process
	resume      *time.Timer   // ends the pause; nil before the first
}

// refillSoon has the list refilled in its turn, or before all that nobody waits for. What a pass under way has
// missed is seen by the next pop, or by the sweep. Callers hold mu.
func (l *list) refillSoon(first bool) {
	if l.refill.phase == idle || l.refill.phase == queued {
		l.refill.phase = queued
		l.svc.due.Add(l, first)
	}
}

// pauseRefill notes why the list has no indices, and has it refilled after a pause. Callers hold mu.
func (l *list) pauseRefill(err error, pause time.Duration) {
	if l.closed != nil {
		return
	}
	l.refill.phase, l.refill.err = paused, err
	if l.refill.resume == nil {
		l.refill.resume = time.AfterFunc(pause, l.endPause)
	} else {
		l.refill.resume.Reset(pause)
	}
}

// endPause queues the list again; at the limit, or without a row, only when somebody asks for an index.
func (l *list) endPause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refill.phase != paused {
		return
	}
	l.refill.phase = idle
	if !atEnd(l.refill.err) {
		l.refillSoon(l.waits())
	}
}

// atEnd says whether no refill will go well before the configuration changes, which is no failure.
func atEnd(err error) bool {
	return errors.Is(err, model.ErrLimitReached) || errors.Is(err, model.ErrUnknownShard)
}

// job is one list on its way through a pass.
type job struct {
	*list
	state   model.ListState
	low     bool  // a refill is due
	used    int64 // indices popped since the last segment
	segment model.Segment
	arrived bool  // the push went well
	lost    bool  // a store failed that may have the segment
	err     error // how it ended; nil also when nothing was due
}

// pass refills lists of the queue, and puts those back whose segments would be too long for one pass.
func (s *Service) pass(lists []*list) {
	if !slices.ContainsFunc(lists, (*list).waits) && !s.background.Sleep(mathrand.N(maxJitter)) {
		return
	}
	var jobs []*job
	indices := int64(0)
	for _, l := range lists {
		l.mu.Lock()
		switch step := min(l.step, l.spare()); {
		case l.closed != nil || l.refill.phase != queued:
		case indices > 0 && indices+step > passIndices:
			l.refillSoon(l.waits())
		default:
			l.refill.phase, indices = running, indices+step
			jobs = append(jobs, &job{list: l})
		}
		l.mu.Unlock()
	}
	if len(jobs) > 0 && s.background.Context().Err() == nil {
		s.runPass(jobs)
	}
}

// runPass is the four steps.
func (s *Service) runPass(jobs []*job) {
	ctx, cancel := context.WithTimeout(s.background.Context(), refillTimeout)
	defer cancel()
	locked, unlock := s.lock(ctx, jobs)
	asking, done := context.WithTimeout(ctx, askTimeout)
	seen := s.observe(asking, locked, s.opts.Lists.Probe)
	done()
	s.push(ctx, s.allocate(ctx, seen))
	unlock()
	s.report(jobs)
	for _, j := range jobs {
		j.finish()
	}
}

// lock takes the locks of the lists and returns the jobs that have theirs or ignore it, and what frees the
// locks, even when the pass ran out of time. Where no lock can be had all jobs continue: one server of a Redis
// Cluster may be unreachable, and the state says which lists are on it.
func (s *Service) lock(ctx context.Context, jobs []*job) (locked []*job, unlock func()) {
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.key.String()
	}
	token := rand.Text()
	locking, done := context.WithTimeout(ctx, lockTimeout)
	defer done()
	got, _ := s.opts.Lists.TryLock(locking, names, token, lockTTL)
	var held []string
	for i, j := range jobs {
		switch {
		case got[i]:
			locked, held = append(locked, j), append(held, names[i])
		case j.ignoresLock():
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
		if err := s.opts.Lists.Unlock(freeing, held, token); err != nil {
			s.opts.Log.Debug("refill locks were not freed; they expire", "error", err)
		}
	}
}

// ignoresLock says whether another replica has had the lock for too long.
func (l *list) ignoresLock() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refill.lockedSince.IsZero() {
		l.refill.lockedSince = time.Now()
	}
	patience := refillTimeout
	if l.waits() {
		patience = lockPatience
	}
	return time.Since(l.refill.lockedSince) > patience
}

// observe asks for the state of the lists and returns the jobs whose lists answered.
func (s *Service) observe(ctx context.Context, jobs []*job,
	ask func(context.Context, []model.ListKey) []model.ListState) (seen []*job) {
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
		j.known, j.depth = max(j.known, j.state.HighWater), j.state.Len
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
		if j.err, j.lost = a.Err, model.MayBeStored(a.Err); a.Err != nil {
			continue
		}
		s.lifted(j.key, a.Lifted)
		s.jumped(j.key, a.Jumped)
		j.segment = a.Segment
		got = append(got, j)
	}
	return got
}

// request is what to ask the database for. The floor has the high-water mark.
func (j *job) request() model.AllocRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	grow := j.popped > 0 && j.life == j.state.Life
	j.used, j.popped = j.popped, 0
	most := j.spare()
	if j.waits() { // and has not given up
		most += j.lacking
	}
	return model.AllocRequest{
		Key: j.key, Floor: j.known, Grow: grow, MaxStep: min(max(j.svc.opts.MaxStep, j.cfg.Step), most),
	}
}

// push pushes each segment once. A list that holds more than it held a moment ago, and a segment's worth,
// was refilled by another replica.
func (s *Service) push(ctx context.Context, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	reqs := make([]model.PushRequest, len(jobs))
	for i, j := range jobs {
		reqs[i] = model.PushRequest{Key: j.key, Life: j.state.Life, Segment: j.segment,
			Cap: max(j.segment.Len(), j.state.Len+1)}
	}
	for i, err := range s.opts.Lists.Push(ctx, reqs) {
		j := jobs[i]
		if j.arrived = err == nil; err == nil {
			s.stats.refills.Inc()
			continue
		}
		s.discarded(j, err)
		if !errors.Is(err, model.ErrListFull) { // which is no failure
			j.err, j.lost = err, true
		}
	}
}

// report tells how the jobs ended: a list that is not low works as well as one that was refilled, and one at
// its limit is no failure. What another replica is refilling stays as it was.
func (s *Service) report(jobs []*job) {
	for _, j := range jobs {
		j.mu.Lock()
		switch {
		case errors.Is(j.err, errBusy):
		case j.err == nil && j.low && j.segment.Len() == 0: // the sweep says nothing of a refill
		case j.err == nil, atEnd(j.err):
			j.note(s.failedRefills, nil)
			j.note(s.failedPops, nil) // the store has answered for it
		default:
			j.note(s.failedRefills, fmt.Errorf("list %s: %w", j.key, j.err))
		}
		j.mu.Unlock()
	}
}

// finish notes what the pass did to the list, and how it continues. Who waits looks again: for what has
// arrived, or for the reason why nothing has.
func (j *job) finish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &j.refill
	if n := j.segment.Len(); n > 0 {
		j.known = max(j.known, j.segment.Last)
		j.step = max(n, j.cfg.Step)
		j.cfg.Unconfirmed = false
	} else if j.life == j.state.Life {
		j.popped += j.used
	}
	if j.arrived {
		r.segments++
		r.loss = 0
		j.depth = max(0, j.state.Len+j.segment.Len()-j.popped)
	}
	if !errors.Is(j.err, errBusy) {
		r.lockedSince = time.Time{}
	}
	r.phase, r.err = idle, nil
	switch {
	case j.err == nil:
	case errors.Is(j.err, errBusy):
		j.pauseRefill(j.err, lockedPause)
	case atEnd(j.err), errors.Is(j.err, model.ErrUnconfirmed):
		j.pauseRefill(j.err, exhaustedFor)
	case j.lost:
		r.loss = min(max(2*r.loss, firstLoss), longestLoss)
		j.pauseRefill(j.err, r.loss)
	default:
		j.pauseRefill(j.err, retryPause/2+mathrand.N(retryPause/2))
	}
	if p := j.pool.Load(); p != nil {
		p.Wake()
	}
}
