package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/background"
)

const (
	// loadTimeout bounds one load. A database that takes longer for one row is as good as away, and a
	// connection that hangs must not keep callers for long from one that works again.
	loadTimeout = 2 * time.Second
	// refusedFor is how long a table that has no segment to give is not asked again, so that its callers
	// do not each cost a transaction.
	refusedFor = time.Second
	// maxAhead bounds what is held, in longest steps: ten minutes at 100 000 IDs a second.
	maxAhead = 70

	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// Tag is what this process holds of one tag. Safe for concurrent use. IDs are taken from its pool,
// which takes the next segment in time; a tag that is removed and added again has another pool.
//
// A tag takes one segment at a time, whatever for, and says how far it knows IDs to be handed out. So
// its segments only rise, and a table that went back is noticed with the next one.
type Tag struct {
	svc     *Service
	name    string
	numbers *model.Numbers            // how its IDs are shown; nil for a plain tag
	pool    atomic.Pointer[hold.Pool] // of this life of the tag; set under mu
	taking  chan struct{}             // has an element while a segment is taken

	mu       sync.Mutex   // guards what follows; a pool may be called with it
	pools    []*hold.Pool // of all lives, the present one last
	closed   error        // why nothing is issued; nil while the tag exists
	runs     int64        // IDs issued in runs
	stale    int64        // IDs that a pool issued and Numbers gave up
	segments []span       // of this life: those that are held, and the one before
	switches int          // segments before these
	rate     rate
	supply   supply
	losses   model.Losses
	nextTry  time.Time // no segment is taken before: what was lost may be left out
	leftOut  int64     // IDs, as it is unknown how far the database went back
}

// span is a segment [first, end) of IDs, before a region joins them.
type span struct{ first, end int64 }

// supply is what is known of the row of a tag.
type supply struct {
	step step
	// floor is above every ID that is known to be handed out, by this process or, as the table told, by
	// others. It never falls while the process lives.
	floor    int64
	raised   uint64 // Service.reads when a segment raised floor last
	behind   bool   // a row was below floor: the table went back in time
	loads    int    // segments taken in this life of the tag for its pool
	lastErr  error  // of the last load
	unloaded bool   // the last load failed, and not because of the row
}

// newTag makes the tag of an entry, which holds nothing. Callers hold Service.mu.
func newTag(svc *Service, e *entry) *Tag {
	t := &Tag{svc: svc, name: e.name, numbers: e.numbers, taking: make(chan struct{}, 1), rate: rate{last: time.Now()},
		supply: supply{floor: e.maxID, step: step{row: int64(e.step.Load())}}}
	t.beginLife()
	return t
}

// beginLife makes a pool that holds nothing, and calls the table when a caller waits. Callers hold mu.
func (t *Tag) beginLife() {
	p := hold.New(hold.Options{
		Source: life{t, len(t.pools)}, Lasts: t.svc.opts.Runway * 10 / 9, Low: 1 - t.svc.opts.Preload,
		Most: maxAhead * t.svc.opts.MaxStep, Timeout: t.svc.opts.Timeout,
		Empty:      fmt.Errorf("%w: tag %q got no segment in time, try again", model.ErrSegmentEmpty, t.name),
		FirstPause: minBackoff, LastPause: maxBackoff, Final: ofRow, Refuse: refusedFor, Go: t.svc.background.Go,
	})
	t.pools = append(t.pools, p)
	t.pool.Store(p)
	t.closed, t.supply.loads, t.supply.unloaded, t.segments, t.switches = nil, 0, false, nil, 0
}

// open takes over a row: of a tag that exists, or exists again. Every max_id ever read says that the
// IDs below it were handed out, by this process or another.
func (t *Tag) open(row model.Tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.svc.background.Context().Err() != nil { // Stop has closed it, or is about to
		return
	}
	if t.closed != nil {
		t.beginLife()
	}
	s := &t.supply
	s.step.row = row.Step
	// A segment that was taken during the reading may or may not show in it.
	s.behind = s.floor > max(row.MaxID, 1) && s.raised < t.svc.reads.Load() && s.step.last > 0
	s.floor = max(s.floor, row.MaxID)
	if s.behind || ofRow(s.lastErr) {
		s.lastErr = nil
		t.pool.Load().Retry()
	}
}

// close ends the tag: its row was removed (err is model.ErrUnknownTag), or the service stops. What is
// held is given up and counted.
func (t *Tag) close(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil {
		t.closed = err
		t.supply.unloaded = false
		t.svc.loads.Note(t, nil)
		t.pool.Load().Close(err)
	}
}

// counts are those of all lives.
func (t *Tag) counts() (c hold.Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pools {
		one := p.Counts()
		c.Issued, c.Dropped, c.Waits, c.Held = c.Issued+one.Issued, c.Dropped+one.Dropped, c.Waits+one.Waits, c.Held+one.Held
	}
	c.Issued, c.Dropped = c.Issued+t.runs-t.stale, c.Dropped+t.stale
	return c
}

// observe notes how fast the tag is used, and tries the database again that failed last: whether the
// next load works must not wait for a caller.
func (t *Tag) observe(now time.Time) {
	issued := t.counts().Issued
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rate.observe(now, issued)
	if t.supply.unloaded && t.closed == nil {
		t.pool.Load().Retry()
	}
}

// takeIDs takes many IDs.
func (t *Tag) takeIDs(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count < 1 || count > model.MaxBatch {
		return dst, fmt.Errorf("%w: count %d is not in 1…%d", model.ErrInvalidArgument, count, model.MaxBatch)
	}
	ids, err := t.pool.Load().Take(ctx, count, dst)
	if err != nil {
		return ids, t.refuse(err)
	}
	return ids, nil
}

// refuse counts a call that got nothing, and says why.
func (t *Tag) refuse(err error) error {
	t.svc.stats.refused.Add(1)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, model.ErrSegmentEmpty) {
		t.mu.Lock()
		last := t.supply.lastErr
		t.mu.Unlock()
		if last == nil {
			last = errors.New("the database has not answered yet")
		}
		err = fmt.Errorf("%w: tag %q got no segment in time, try again: %w", model.ErrSegmentEmpty, t.name, last)
	}
	if errors.Is(err, model.ErrSegmentEmpty) {
		t.svc.stats.starved.Add(1)
	}
	return err
}

// takeRun takes a segment of the row's step for a client that counts on its own. Errors: those of
// Service.Next.
func (t *Tag) takeRun(ctx context.Context) (first, last int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.svc.opts.Timeout, model.ErrSegmentEmpty)
	defer cancel()
	defer context.AfterFunc(t.svc.background.Context(), cancel)()
	t.mu.Lock()
	closed, now := t.closed, len(t.pools)-1
	t.mu.Unlock()
	if closed != nil {
		return 0, 0, t.refuse(closed)
	}
	s, err := t.takeSegment(ctx, 0, now)
	switch {
	case err == nil && s.End > s.First:
		t.mu.Lock()
		t.runs += s.End - s.First
		t.mu.Unlock()
		r := t.runOf(s)
		return r.First, r.First + (r.Count-1)*r.Stride, nil
	case t.svc.background.Context().Err() != nil:
		return 0, 0, t.refuse(background.ErrStopping)
	case err == nil:
		err = errors.New("its segment was not used")
	case ofRow(err):
		return 0, 0, t.refuse(err)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 0, 0, t.refuse(err)
	}
	return 0, 0, t.refuse(fmt.Errorf("%w: tag %q: %w", model.ErrSegmentEmpty, t.name, err))
}

// runOf is a segment as the IDs that callers get: the region joins the numbers of a plain tag, those
// of others as they are shown.
func (t *Tag) runOf(s model.TagSegment) hold.Run {
	if t.numbers != nil {
		return hold.Run{First: s.First, Count: s.End - s.First, Stride: 1}
	}
	region := t.svc.opts.Region
	return hold.Run{First: s.First<<region.Bits | int64(region.ID), Count: s.End - s.First, Stride: 1 << region.Bits}
}

// life is the source of a tag's pool.
type life struct {
	*Tag
	number int // in Tag.pools
}

// More implements hold.Source with one segment.
func (l life) More(ctx context.Context, n int64) ([]hold.Run, error) {
	s, err := l.takeSegment(ctx, n, l.number)
	if err != nil || s.End == s.First {
		return nil, err
	}
	return []hold.Run{l.runOf(s)}, nil
}

// takeSegment takes a segment: for the pool of a life of the tag about n IDs, or with n = 0 as many as
// the row's step is. It is empty where it may not be used.
func (t *Tag) takeSegment(ctx context.Context, n int64, number int) (model.TagSegment, error) {
	select {
	case t.taking <- struct{}{}:
		defer func() { <-t.taking }()
	case <-ctx.Done():
		return model.TagSegment{}, ctx.Err()
	}
	for {
		t.mu.Lock()
		pause := time.Until(t.nextTry)
		t.mu.Unlock()
		background.Pause(ctx, pause, nil)
		s, err := t.takeOnce(ctx, n, number)
		if err != nil || s.End > s.First || s.Step == 0 {
			return s, err
		}
	}
}

// takeOnce is takeSegment for one transaction. An empty segment with a step only shows that the next
// would arrive; one without may not be used.
func (t *Tag) takeOnce(ctx context.Context, n int64, number int) (model.TagSegment, error) {
	t.mu.Lock()
	began := time.Now()
	req := model.TagRequest{Tag: t.name, Floor: t.supply.floor, Numbers: t.numbers, Care: t.losses.Care}
	tuned := int64(0)                 // the row's step
	if n > 0 && t.supply.loads >= 2 { // Leaf tunes from the third on
		tuned = t.supply.step.next(began, t.svc.opts.MaxStep)
	}
	if req.Step = tuned; n > 2*max(tuned, t.supply.step.row) {
		req.Step = max(tuned, min(n, max(t.svc.opts.MaxStep, model.MaxBatch)))
	}
	t.mu.Unlock()

	bounded, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	s, err := t.svc.opts.Table.AllocateTag(bounded, req)
	t.svc.stats.loadTimes.Observe(time.Since(began))

	t.mu.Lock()
	defer t.mu.Unlock()
	t.noteLoad(err)
	if err != nil {
		if ofRow(err) {
			t.svc.events.Log(slog.LevelWarn, "no segment could be taken", "tag", t.name, "error", err)
		}
		if errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, model.ErrUnconfirmed) { // the row is the operator's
			err = fmt.Errorf("%w: %w", model.ErrSegmentEmpty, err)
		}
		var away *model.StoreError
		if errors.As(err, &away) { // it may be committed all the same
			t.nextTry = time.Now().Add(t.losses.Lost(t.numbers.Left(t.supply.floor)))
		}
		return model.TagSegment{}, err
	}
	t.losses.Arrived(s.End - s.First)
	t.noteJumps(s)
	if s.End > t.supply.floor {
		t.supply.floor, t.supply.raised = s.End, t.svc.reads.Load()
	}
	unused := model.TagSegment{}
	switch {
	case s.First < max(req.Floor, 1) || s.End < s.First+req.Care.Bound(1):
		t.noteRepeated(s, req.Floor)
		return unused, t.supply.lastErr
	case s.End == s.First:
		s.Step = max(s.Step, 1)
		return s, nil
	case t.closed != nil || number != len(t.pools)-1, t.late(s): // it is of a row that was removed, or a period that is over
		t.svc.stats.wasted.Add(s.End - s.First)
		return unused, nil
	}
	t.supply.behind = false
	if n > 0 {
		t.noteSegment(s)
		t.supply.step.took(tuned, s.Step, time.Now())
		t.supply.loads++
		t.pool.Load().Bound(min(t.supply.step.last, s.End-s.First), maxAhead*t.svc.opts.MaxStep)
	}
	return s, nil
}

// noteSegment keeps a segment for those who look, and forgets those that are used up. Callers hold mu.
func (t *Tag) noteSegment(s model.TagSegment) {
	next := t.nextNumber(t.pool.Load().Counts())
	for len(t.segments) > 1 && t.segments[1].end <= next {
		t.segments = slices.Delete(t.segments, 0, 1)
		t.switches++
	}
	t.segments = append(t.segments, span{s.First, s.End})
}

// nextNumber is the number of the next ID that is held, and that after the last segment when none is.
// Callers hold mu.
func (t *Tag) nextNumber(c hold.Counts) int64 {
	switch {
	case c.Held > 0 && t.numbers == nil:
		return c.Next >> t.svc.opts.Region.Bits
	case c.Held > 0:
		return c.Next
	case len(t.segments) > 0:
		return t.segments[len(t.segments)-1].end
	}
	return -1
}

// ofRow says whether a load failed because of the row and not of the database.
func ofRow(err error) bool {
	return errors.Is(err, model.ErrUnknownTag) || errors.Is(err, model.ErrLimitReached) ||
		errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, model.ErrUnconfirmed)
}

// noteLoad counts a load and reports whether the database works. What is wrong with one row, or a wait
// that is meant to be, is no failure of it. Callers hold mu.
func (t *Tag) noteLoad(err error) {
	t.svc.stats.loads.Add(1)
	if err != nil {
		t.svc.stats.failedLoads.Add(1)
	}
	t.supply.lastErr = err
	t.supply.unloaded = err != nil && !ofRow(err) && t.closed == nil
	switch {
	case t.svc.background.Context().Err() != nil:
	case t.supply.unloaded && !errors.Is(err, model.ErrRate) && !errors.Is(err, model.ErrJumping):
		t.svc.loads.Note(t, fmt.Errorf("tag %q: %w", t.name, err))
	default:
		t.svc.loads.Note(t, nil)
	}
}

// noteRepeated is the tripwire. Callers hold mu.
func (t *Tag) noteRepeated(s model.TagSegment, floor int64) {
	t.svc.stats.repeated.Add(1)
	t.svc.stats.wasted.Add(max(0, s.End-max(s.First, floor)))
	t.supply.lastErr = fmt.Errorf("segment [%d, %d) refused: IDs below %d were handed out before", s.First, s.End, floor)
	t.svc.events.Log(slog.LevelError, "segment refused: its IDs were handed out before; look for a second writer of leaf_alloc",
		"tag", t.name, "first", s.First, "end", s.End, "floor", floor)
}

// noteJumps counts a max_id that was below what has been handed out, which nothing but a table that
// went back in time explains, and IDs that were left out because it is unknown how far. Callers hold mu.
func (t *Tag) noteJumps(s model.TagSegment) {
	if s.Lifted > 0 {
		t.svc.stats.lifts.Add(1)
		t.svc.events.Log(slog.LevelWarn, "max_id was below what has been handed out and was lifted: the database went back in time, or the tag was added again",
			"tag", t.name, "by", s.Lifted)
	}
	if s.Jumped > 0 {
		t.svc.stats.jumps.Add(1)
		t.svc.stats.jumped.Add(s.Jumped)
		t.leftOut += s.Jumped
		t.svc.events.Log(slog.LevelError, "IDs left out: another database server, or an earlier state of it, and Redis cannot tell what was handed out",
			"tag", t.name, "ids", s.Jumped)
	}
}
