package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// loadTimeout bounds one load. A database that takes longer for one row is
	// as good as away, and a connection that hangs must not keep callers for long
	// from one that works again.
	loadTimeout = 2 * time.Second
	// maxAhead is how many blocks may follow the current one. At the longest
	// step that is ten minutes at 100 000 IDs a second.
	maxAhead = 64
	// refusedFor is how long a table that has no segment to give is not asked
	// again, so that its callers do not each cost a transaction.
	refusedFor = time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// loadInTime loads in the background if it is time to.
func (t *Tag) loadInTime() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startLoad(time.Now())
}

// observe notes how fast the tag is used, and loads if more should be held.
func (t *Tag) observe(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.demand.observe(now, t.issuedLocked(), t.svc.opts.Runway)
	t.startLoad(now)
}

// wanted says whether a segment is to be loaded: for those who wait, as Leaf does,
// because what is held would not last, or because the last load failed: whether the
// next one works must not wait for a caller. Callers hold mu.
func (t *Tag) wanted(now time.Time) bool {
	b := t.current.Load()
	switch {
	case t.closed != nil || now.Before(t.refusedUntil):
		return false
	case len(t.waiters) > 0 || len(t.runs) > 0:
		return true
	case len(t.ahead) >= maxAhead:
		return false
	case t.behind, t.unloaded:
		return true
	case t.loads == 0: // the first one waits for a caller
		return false
	case len(t.ahead) == 0 && (b.used() >= b.mark || b.length == 0): // no current block: all went in runs
		return true
	}
	return t.held() < t.demand.target
}

// startLoad loads in the background if that is wanted and not under way. Callers
// hold mu.
func (t *Tag) startLoad(now time.Time) {
	if t.loading || !t.wanted(now) {
		return
	}
	if t.loading = t.svc.background.Go(t.load); !t.loading {
		t.closed = background.ErrStopping
		t.failAll(t.closed)
	}
}

// load takes segments until no more are wanted. A tag has at most one load, so
// that its segments only rise.
func (t *Tag) load() {
	pause := minBackoff
	for {
		began := time.Now()
		p, ok := t.plan()
		if !ok {
			return
		}
		least, ok := t.loadOnce(p)
		if ok {
			pause = minBackoff
			continue
		}
		jittered := pause/2 + mathrand.N(pause/2) // replicas must not come back in step
		t.svc.background.Sleep(max(least, jittered-time.Since(began)))
		pause = min(2*pause, maxBackoff)
	}
}

// plan is one load: what is asked for, and the life of the tag it is for.
type plan struct {
	req   model.TagRequest
	tuned int64 // without what those who wait need beyond it
	life  int
}

// plan says what to load next; false ends the loading.
func (t *Tag) plan() (plan, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.wanted(now) {
		t.loading = false
		return plan{}, false
	}
	p := plan{life: t.life, req: model.TagRequest{Tag: t.name, Floor: t.floor, Numbers: t.numbers, Care: t.losses.Care}}
	if t.loads >= 2 { // Leaf tunes from the third on
		p.tuned = t.step.next(now, t.svc.opts.MaxStep)
	}
	all, largest := t.waiters.Needed()
	allRuns, longest := t.runs.Needed()
	p.req.Step = max(p.tuned, min(int64(all+allRuns), max(t.svc.opts.MaxStep, int64(largest), int64(longest))))
	return p, true
}

// loadOnce takes one segment; false asks for a pause before the next, of that length at
// least.
func (t *Tag) loadOnce(p plan) (pause time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(t.svc.background.Context(), loadTimeout)
	defer cancel()
	began := time.Now()
	s, err := t.svc.opts.Table.AllocateTag(ctx, p.req)
	t.svc.stats.loadTimes.Observe(time.Since(began))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded(err)
	if err != nil {
		var away *model.StoreError
		if t.loadFailed(err); errors.As(err, &away) { // it may be committed all the same
			pause = t.losses.Lost(t.numbers.Left(t.floor))
		}
		return pause, false
	}
	t.losses.Arrived(s.End - s.First)
	t.lifted(s.Lifted)
	t.jumped(s.Jumped)
	return 0, t.accept(p, s, time.Now())
}

// loaded counts a load and reports whether the database works. What is wrong with one
// row, or a wait that is meant to be, is no failure of it. Callers hold mu.
func (t *Tag) loaded(err error) {
	t.svc.stats.loads.Add(1)
	t.unloaded = err != nil && !ofRow(err) && t.closed == nil
	switch {
	case t.svc.background.Context().Err() != nil:
	case t.unloaded && !errors.Is(err, model.ErrRate) && !errors.Is(err, model.ErrJumping):
		t.svc.loads.Note(t, fmt.Errorf("tag %q: %w", t.name, err))
	default:
		t.svc.loads.Note(t, nil)
	}
}

// ofRow says whether a load failed because of the row and not of the database.
func ofRow(err error) bool {
	return errors.Is(err, model.ErrUnknownTag) || errors.Is(err, model.ErrLimitReached) ||
		errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, model.ErrUnconfirmed)
}

// loadFailed notes a failed load; a segment that was committed all the same is a
// gap. Callers hold mu.
func (t *Tag) loadFailed(err error) {
	t.svc.stats.failedLoads.Add(1)
	t.lastErr = err
	if !ofRow(err) {
		return
	}
	t.svc.events.Log(slog.LevelWarn, "no segment could be taken", "tag", t.name, "error", err)
	if errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, model.ErrUnconfirmed) { // the row is the operator's, not the caller's
		err = fmt.Errorf("%w: %w", model.ErrSegmentEmpty, err)
	}
	t.refused, t.refusedUntil = err, time.Now().Add(refusedFor)
	t.failAll(err)
}

// accept takes over a segment; false refuses one that was handed out before.
// Callers hold mu.
func (t *Tag) accept(p plan, s model.TagSegment, now time.Time) bool {
	if s.End > t.floor {
		t.floor, t.raised = s.End, t.svc.reads.Load()
	}
	switch {
	case s.First < max(p.req.Floor, 1) || s.End < s.First+p.req.Care.Bound(1):
		t.repeated(s, p.req.Floor)
		return false
	case s.End == s.First:
		return true
	case t.closed != nil || t.life != p.life: // it is of a row that was removed
		t.svc.stats.wasted.Add(s.End - s.First)
		return true
	case t.late(s):
		t.svc.stats.wasted.Add(s.End - s.First)
		return false
	}
	t.step.took(p.tuned, s.Step, now)
	t.loads++
	t.behind, t.lastErr = false, nil
	b := newBlock(s.First, s.End, t.svc.opts.Preload, t.region())
	t.ahead = append(t.ahead, b)
	t.aheadIDs += b.length
	t.waiters.Serve(t.grab)
	t.runs.Serve(t.grabRun)
	return true
}

// repeated is the tripwire. Callers hold mu.
func (t *Tag) repeated(s model.TagSegment, floor int64) {
	t.svc.stats.repeated.Add(1)
	t.svc.stats.wasted.Add(max(0, s.End-max(s.First, floor)))
	t.lastErr = fmt.Errorf("segment [%d, %d) refused: IDs below %d were handed out before", s.First, s.End, floor)
	t.svc.events.Log(slog.LevelError, "segment refused: its IDs were handed out before; look for a second writer of leaf_alloc",
		"tag", t.name, "first", s.First, "end", s.End, "floor", floor)
}

// lifted counts a max_id that was below what has been handed out. Nothing but a
// table that went back in time explains it. Callers hold mu.
func (t *Tag) lifted(by int64) {
	if by == 0 {
		return
	}
	t.svc.stats.lifts.Add(1)
	t.svc.events.Log(slog.LevelWarn, "max_id was below what has been handed out and was lifted: the database went back in time, or the tag was added again", "tag", t.name, "by", by)
}

// jumped tells of IDs that were left out because it is unknown how far the database
// went back. Callers hold mu.
func (t *Tag) jumped(n int64) {
	if n == 0 {
		return
	}
	t.svc.stats.jumps.Add(1)
	t.svc.stats.jumped.Add(n)
	t.leftOut += n
	t.svc.events.Log(slog.LevelError, "IDs left out: another database server, or an earlier state of it, and Redis cannot tell what was handed out", "tag", t.name, "ids", n)
}
