package sequence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"shardid/model"
)

const (
	// passSize is how many sections one pass fills: one transaction, and a pipeline for each of
	// its other steps.
	passSize = 64
	// passesAtOnce is how many passes run side by side.
	passesAtOnce = 2
	// retryAfter is the pause after a pass in which a section could not be filled, soon is it where
	// another replica fills it, and patience, at most, where leases of an earlier term must end
	// first: another replica may have known the term for longer.
	retryAfter = 100 * time.Millisecond
	soon       = 10 * time.Millisecond
	patience   = 500 * time.Millisecond
)

// phase is where a section is between two passes that fill it.
type phase int

const (
	idle    phase = iota // asks go to Redis
	filling              // they do, and a pass fills it, or will
	dry                  // the same, and asks wait for its end
)

// errSectionChanged: another replica was faster, or the section began another life meanwhile.
var errSectionChanged = errors.New("the section changed meanwhile")

// job is a section on its way through a pass.
type job struct {
	*section
	state model.SectionState
	req   model.SectionRequest
	grant model.SectionGrant
	want  int64
	err   error
}

// fillSections makes sections able to answer: state, lease, numbers and term, push. The state comes before
// the allocation, as numbers arrive only in the life that was read there.
func (s *Service) fillSections(sections []*section) {
	ctx, cancel := context.WithTimeout(s.background.Context(), 2*callTimeout)
	defer cancel()
	jobs, keys := make([]*job, len(sections)), make([]model.SectionKey, len(sections))
	s.lane.mu.Lock()
	for i, one := range sections {
		jobs[i], keys[i] = &job{section: one, want: one.want}, one.key
	}
	s.lane.mu.Unlock()
	asking, done := context.WithTimeout(ctx, askTimeout)
	defer done()
	var seen []*job
	for i, state := range s.opts.Store.State(asking, keys) {
		if jobs[i].state, jobs[i].err = state, state.Err; state.Err == nil {
			seen = append(seen, jobs[i])
		}
	}
	now := s.now()
	got := s.allocateNumbers(ctx, s.ensureLeases(seen, func(lease *serverLease, _ *job) bool {
		return lease.valid(now, leaseLasts/2)
	}))
	s.pushNumbers(ctx, got)
	s.ensureLeases(got, func(lease *serverLease, j *job) bool { // nothing can be asked for under another number
		return lease.number == j.grant.Number && lease.changes == j.grant.Changes
	})
	if slices.ContainsFunc(jobs, func(j *job) bool { return errors.Is(j.err, model.ErrUnknownSpace) }) {
		// It drops the sections that are gone, so what waits for them is grouped again. The lane notes a failure, and
		// the sections are filled again.
		_ = s.renewLeases(nil)
	}
	lost := map[string]bool{}
	for _, j := range jobs {
		if server := s.finishFill(j); server != "" {
			lost[server] = true
		}
	}
	if len(lost) == 0 {
		return
	}
	// What was lost with a life is waited for once, and not by the first caller of each of its sections.
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	for _, one := range s.lane.sections {
		if lost[one.server] {
			s.lane.fillSoon(one)
		}
	}
}

// ensureLeases renews the leases of the lives of jobs for which they cannot be used, and gives no jobs when that fails.
func (s *Service) ensureLeases(jobs []*job, isUsable func(lease *serverLease, j *job) bool) []*job {
	if s.opts.Alone {
		return jobs
	}
	outdated := map[string]bool{}
	s.lane.mu.Lock()
	for _, j := range jobs {
		if lease := s.lane.leases[j.state.Server]; lease == nil || !isUsable(lease, j) {
			outdated[j.state.Server] = true
		}
	}
	s.lane.mu.Unlock()
	if len(outdated) == 0 {
		return jobs
	}
	if err := s.renewLeases(outdated); err != nil {
		for _, j := range jobs {
			j.err = err
		}
		return nil
	}
	return jobs
}

// allocateNumbers asks the database for terms, and for numbers where they are needed. What another life
// has is asked for once more, as a claim, when the life that was read is the present one.
func (s *Service) allocateNumbers(ctx context.Context, jobs []*job) (got []*job) {
	for _, j := range jobs {
		j.req = model.SectionRequest{Key: j.key, Life: j.state.Life, Term: j.state.Term, Bound: j.state.Bound,
			Want: j.want}
		if j.state.Term == 0 {
			j.req.Want = max(j.want, 1)
		}
		if j.claimed != 0 && time.Since(j.since) > openAfter {
			j.req.Open = j.claimed
		}
	}
	got, fenced := s.askForNumbers(ctx, jobs)
	fenced = s.confirmLives(ctx, fenced)
	for _, j := range fenced {
		j.req.Claim = true
	}
	claimed, _ := s.askForNumbers(ctx, fenced)
	return append(got, claimed...)
}

// askForNumbers has the database answer the requests of jobs, and gives those that got an answer, and
// those whose section another life has.
func (s *Service) askForNumbers(ctx context.Context, jobs []*job) (got, fenced []*job) {
	if len(jobs) == 0 {
		return nil, nil
	}
	reqs := make([]model.SectionRequest, len(jobs))
	for i, j := range jobs {
		reqs[i] = j.req
	}
	for i, g := range s.opts.Allocator.AllocateSections(ctx, reqs, s.opts.Store.Place(), s.opts.Store.Majority()) {
		j := jobs[i]
		if j.grant, j.err = g, g.Err; errors.Is(g.Err, model.ErrFence) {
			fenced = append(fenced, j)
		} else if g.Err == nil {
			got = append(got, j)
		}
	}
	return got, fenced
}

// confirmLives asks anew whether the lives that were read are the present ones, and gives the jobs
// whose are: they may take their sections from another life.
func (s *Service) confirmLives(ctx context.Context, jobs []*job) (sure []*job) {
	asked := map[string]bool{}
	for _, j := range jobs {
		good, known := asked[j.state.Server]
		if !known {
			server, err := s.opts.Store.Confirm(ctx, j.key)
			good = err == nil && server == j.state.Server
			asked[j.state.Server] = good
			if err != nil {
				j.err = err
			}
		}
		if good {
			sure = append(sure, j)
		}
	}
	return sure
}

// pushNumbers gives sections their numbers.
func (s *Service) pushNumbers(ctx context.Context, jobs []*job) {
	var pushed []*job
	var pushes []model.SectionPush
	for _, j := range jobs {
		if j.grant.Segment.Len() > 0 {
			pushed = append(pushed, j)
			pushes = append(pushes, model.SectionPush{
				Key: j.key, Life: j.state.Life, Term: j.grant.Term, Segment: j.grant.Segment,
			})
		}
	}
	if len(pushes) == 0 {
		return
	}
	for i, err := range s.opts.Store.Push(ctx, pushes) {
		switch j := pushed[i]; {
		case err == nil:
			continue
		case errors.Is(err, model.ErrLifeChanged), errors.Is(err, model.ErrNotAboveHighWater):
			j.err = errSectionChanged
		default:
			j.err = err
		}
		s.events.Log(slog.LevelInfo, "numbers of a section were given up; they are gaps",
			"section", pushes[i].Key.String(), "error", err)
	}
}

// finishFill takes over what a pass found, and lets the items continue, or tries again while some wait or
// something fails. lost is the life that has lost the section, "" for none.
func (s *Service) finishFill(j *job) (lost string) {
	l := &s.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	one := j.section
	one.phase = idle
	if l.sections[one.key] != one { // its space is gone, or has other sections
		l.requeue(one)
		return ""
	}
	claimed := one.claimed
	pause := s.judgeFill(j)
	if one.claimed != claimed && one.claimed != 0 {
		lost = one.server
	}
	if pause == 0 {
		one.pause = time.Now()
		l.requeue(one)
		return ""
	}
	final := errors.Is(j.err, model.ErrLimitReached)
	if final {
		for _, i := range one.waiting {
			i.answer(0, one.err)
		}
	}
	one.waiting = slices.DeleteFunc(one.waiting, func(i *item) bool { return !i.waits() })
	waits := len(one.waiting) > 0
	if !waits && j.err != nil {
		pause = patience
	}
	one.pause = time.Now().Add(pause)
	if waits || !final && (j.err != nil || one.claimed != 0) { // a failure or a claim ends without a caller, too
		l.fillSoon(one)
	}
	if waits {
		one.phase = dry
	}
	return lost
}

// judgeFill says after which pause a section is filled again; 0: it can answer. Callers hold the
// lane's mu.
func (s *Service) judgeFill(j *job) time.Duration {
	one := j.section
	if j.err == nil && j.grant.Segment.Len() > 0 && one.want <= j.want { // also while its term is not open
		one.want = 0
	}
	switch {
	case errors.Is(j.err, model.ErrSectionBusy), errors.Is(j.err, errSectionChanged):
		return soon
	case j.err != nil:
		if one.err = j.err; errors.Is(j.err, model.ErrLimitReached) { // which is an answer
			s.failing.Note(one.key, nil)
		} else {
			s.failing.Note(one.key, j.err)
		}
		return retryAfter
	case !j.grant.Open:
		if one.claimed != j.grant.Term {
			one.claimed, one.since = j.grant.Term, time.Now()
			s.events.Log(slog.LevelWarn, "a section begins another life in Redis: leases of the one before end first",
				"section", one.key.String(), "term", one.claimed)
		}
		one.err = fmt.Errorf("%w: Redis was restarted, emptied or replaced, or its replicas were, and gives numbers "+
			"again within %v, when every lease of before has ended", model.ErrFence, openAfter)
		s.failing.Note(one.key, one.err)
		return min(patience, max(soon, time.Until(one.since.Add(openAfter))+time.Millisecond))
	}
	one.claimed, one.err = 0, nil
	s.failing.Note(one.key, nil)
	one.server = j.state.Server
	one.grant = grant{j.state.Server, j.grant.Term, j.grant.Number, j.grant.Changes}
	if j.grant.Segment.Len() == 0 && j.grant.Term != j.state.Term { // Redis has no numbers of the term
		one.want = max(one.want, 1)
		return soon
	}
	return 0
}
