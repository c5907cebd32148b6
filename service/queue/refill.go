package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"shardid/model"
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
)

// errBusy: another replica is refilling the list.
var errBusy = errors.New("another replica is refilling the list")

// job is one list on its way through a pass.
type job struct {
	*list
	settle  bool // the list and its row are brought up to each other, and that is all
	low     bool // it is due for a refill
	state   model.ListState
	segment model.Segment
	err     error // how it ended; nil also when nothing was due
}

// refill runs one pass over the lists that are not being refilled already. With
// settle they are settled instead.
func (s *Service) refill(lists []*list, settle bool) {
	var jobs []*job
	for _, l := range lists {
		if l.beginRefill() {
			jobs = append(jobs, &job{list: l, settle: settle})
		}
	}
	if len(jobs) > 0 {
		s.runPass(jobs, false)
	}
}

// runPass is one pass over lists that beginRefill has claimed.
func (s *Service) runPass(jobs []*job, withoutLock bool) {
	ctx, cancel := context.WithTimeout(s.ctx, refillTimeout)
	defer cancel()
	if s.opts.Observe != nil {
		var end func()
		ctx, end = s.opts.Observe(ctx, len(jobs))
		defer end()
	}
	began := time.Now()
	s.pass(ctx, jobs, withoutLock)
	s.stats.passes.Observe(time.Since(began))
	s.report(jobs)
	for _, j := range jobs {
		j.endRefill(j.err)
	}
}

// pass takes the jobs through the steps; each drops those that end there. The state
// must come before the allocation, as a push succeeds only on the history read there.
// It is read with a write: what could not be pushed is not allocated.
func (s *Service) pass(ctx context.Context, jobs []*job, withoutLock bool) {
	if !withoutLock {
		token := rand.Text()
		jobs = s.lock(ctx, jobs, token)
		defer s.unlock(ctx, jobs, token)
	}
	jobs = s.look(ctx, jobs, s.opts.Lists.Probe)
	s.settle(ctx, jobs)
	s.push(ctx, s.allocate(ctx, s.due(jobs)))
}

func (s *Service) lock(ctx context.Context, jobs []*job, token string) []*job {
	got, err := s.opts.Locker.TryLock(ctx, names(jobs), token, lockTTL)
	if err != nil {
		return keep(jobs, func(int, *job) error { return fmt.Errorf("lock: %w", err) })
	}
	return keep(jobs, func(i int, _ *job) error {
		if !got[i] {
			return errBusy
		}
		return nil
	})
}

// unlock frees the locks even when the pass ran out of time.
func (s *Service) unlock(ctx context.Context, jobs []*job, token string) {
	if len(jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.opts.Locker.Unlock(ctx, names(jobs), token); err != nil {
		s.opts.Log.Debug("refill locks were not freed; they expire", "error", err)
	}
}

// look asks for the state of the lists.
func (s *Service) look(ctx context.Context, jobs []*job, ask func(context.Context, []model.ListKey) []model.ListState) []*job {
	if len(jobs) == 0 {
		return nil
	}
	keys := make([]model.ListKey, len(jobs))
	for i, j := range jobs {
		keys[i] = j.key
	}
	states := ask(ctx, keys)
	for i, j := range jobs {
		if j.state = states[i]; j.state.Err == nil {
			j.saw(j.state)
		}
	}
	return keep(jobs, func(_ int, j *job) error { return j.state.Err })
}

// settle brings lists and their rows up to each other: the mark of a list is raised to
// what its row has handed out, the row to what the list has, and the row names the
// list's history if the mark covers it. From then on each can lose what it has, and
// the other still knows. A segment of another replica that is on its way would be
// refused by the mark; the lock keeps it away.
func (s *Service) settle(ctx context.Context, jobs []*job) {
	var todo, marked []*job
	var marks []model.MarkRequest
	for _, j := range jobs {
		if j.settle {
			j.mu.Lock()
			marks = append(marks, model.MarkRequest{Key: j.key, History: j.state.History, Index: j.cfg.MaxID})
			j.mu.Unlock()
			todo = append(todo, j)
		}
	}
	if len(todo) == 0 {
		return
	}
	var reqs []model.AllocRequest
	for i, err := range s.opts.Lists.Mark(ctx, marks) {
		j := todo[i]
		if j.err = err; err == nil {
			j.mu.Lock()
			reqs = append(reqs, model.AllocRequest{Key: j.key, Floor: j.known, History: j.state.History, Mark: max(marks[i].Index, j.state.HighWater)})
			j.mu.Unlock()
			marked = append(marked, j)
		}
	}
	if len(marked) == 0 {
		return
	}
	for i, a := range s.opts.Allocator.Settle(ctx, reqs) {
		marked[i].err = a.Err
		s.lifted(marked[i].key, a.Lifted)
	}
}

// due are the jobs whose lists are low.
func (s *Service) due(jobs []*job) []*job {
	due := jobs[:0:0]
	for _, j := range jobs {
		if j.low = !j.settle && j.isLow(j.state.Len); j.low {
			due = append(due, j)
		}
	}
	return due
}

func (s *Service) allocate(ctx context.Context, jobs []*job) []*job {
	if len(jobs) == 0 {
		return nil
	}
	reqs := make([]model.AllocRequest, len(jobs))
	for i, j := range jobs {
		reqs[i] = j.request()
	}
	for i, a := range s.opts.Allocator.Allocate(ctx, reqs) {
		jobs[i].allocated(a)
	}
	return keep(jobs, func(_ int, j *job) error { return j.err })
}

func (j *job) request() model.AllocRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	grow := j.popped > 0 && j.history == j.state.History && !j.slow
	return model.AllocRequest{
		Key:     j.key,
		Floor:   j.known, // the high-water mark included
		History: j.state.History,
		Mark:    j.state.HighWater,
		Grow:    grow,
		MaxStep: j.maxStep(grow),
	}
}

// allocated notes the answer to the request.
func (j *job) allocated(a model.Allocation) {
	j.segment, j.err = a.Segment, a.Err
	if a.Err != nil {
		return
	}
	j.svc.lifted(j.key, a.Lifted)
	j.svc.jumped(j.key, a.Jumped)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.known = max(j.known, a.Segment.Last)
	j.step = max(a.Segment.Len(), j.cfg.Step)
	j.popped = 0
}

func (s *Service) push(ctx context.Context, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	reqs := make([]model.PushRequest, len(jobs))
	for i, j := range jobs {
		reqs[i] = model.PushRequest{Key: j.key, History: j.state.History, Segment: j.segment, Cap: j.segment.Len()}
	}
	began := time.Now()
	errs := s.opts.Lists.Push(ctx, reqs)
	slow := time.Since(began) > slowPush
	for i, err := range errs {
		jobs[i].pushed(err, slow)
	}
}

// pushed notes how a push went. After any error the segment is given up: it may
// or may not have arrived, and pushing it again could repeat it.
func (j *job) pushed(err error, slow bool) {
	j.setSlow(slow)
	if err == nil {
		j.arrived()
		return
	}
	j.svc.discarded(j, err)
	if errors.Is(err, model.ErrListFull) {
		return
	}
	if !errors.Is(err, model.ErrHistoryChanged) { // what the store then says is new
		err = j.pushFailed(j.segment.Len(), err)
	}
	j.err = err
}

// arrived counts a segment that was pushed.
func (j *job) arrived() {
	j.svc.stats.refills.Add(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refills++
	j.pauseFor = 0
	j.depth = j.state.Len + j.segment.Len()
}

func (j *job) setSlow(slow bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.slow = slow
}

// report tells how the jobs ended: a list that is not low works as well as one that
// was refilled, and one at its limit is no failure. What another replica is refilling
// stays as it was.
func (s *Service) report(jobs []*job) {
	if s.ctx.Err() != nil {
		return
	}
	failed := false
	for _, j := range jobs {
		switch {
		case errors.Is(j.err, errBusy):
		case j.err == nil && (j.settle || j.low && j.segment.Last == 0): // that says nothing of a refill
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

// keep records the error that end gives for each job and returns those without.
func keep(jobs []*job, end func(int, *job) error) []*job {
	kept := jobs[:0:0]
	for i, j := range jobs {
		if j.err = end(i, j); j.err == nil {
			kept = append(kept, j)
		}
	}
	return kept
}

func names(jobs []*job) []string {
	out := make([]string, len(jobs))
	for i, j := range jobs {
		out[i] = j.key.String()
	}
	return out
}
