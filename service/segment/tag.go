package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/background"
)

// A tag takes one segment at a time, whether for its pool or as a run, and says how far it knows IDs to be handed
// out. So its segments only rise, and a table that went back is noticed with the next one.
//
// When the row of a tag is removed, its pool gives up what is held and what is on its way. The pool stays: the next
// caller has the table asked, which says that there is no such tag, or that there is one again.

const (
	// loadTimeout bounds one load. A database that takes longer for one row is as good as away, and a
	// connection that hangs must not keep callers for long from one that works again.
	loadTimeout = 2 * time.Second
	// refusedFor is how long a table that has no segment to give is not asked again, so that its callers
	// do not each cost a transaction.
	refusedFor = time.Second
	// maxAhead bounds what is held, in longest steps: ten minutes at 100 000 IDs a second.
	maxAhead = 70

	// minBackoff and maxBackoff bound the pause between two tries for the pool.
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// Tag is what this process holds of one tag. Safe for concurrent use.
type Tag struct {
	svc     *Service
	name    string
	numbers *model.Numbers // how its IDs are shown; nil for a plain tag
	// shardBits are the low bits of its IDs that a caller's key says.
	shardBits uint
	pool      *hold.Pool    // its IDs; it takes the next segment in time
	taking    chan struct{} // has an element while a segment is taken

	mu       sync.Mutex // guards what follows; the pool may be called with it
	supply   supply
	rate     rate
	beside   int64              // IDs issued in runs, less those that the pool issued and Numbers gave up
	segments []model.TagSegment // those that are held, in order
}

// supply is what is known of the row of a tag.
type supply struct {
	row     int64     // the row's step, the shortest segment
	tuned   int64     // length of the last segment, as Leaf tunes it; 0 before the first
	takenAt time.Time // when that was taken
	// floor is above every ID that is known to be issued, by this process or, as the table told, by
	// others. It never falls while the process lives.
	floor   int64
	raised  uint64 // Service.reads when a segment raised floor last
	removed bool   // there is no row, for all that is known
	loads   int    // segments taken for the pool since the row came
	lastErr error  // of the last load
	// lost says that the last segment was lost on its way: nobody knows whether the database has it. The next tries
	// are for one number each, so that an hour of losses costs a segment and a number for each try.
	lost bool
}

// errNoAnswer is why there is no segment when no load has ended yet.
var errNoAnswer = errors.New("the database has not answered yet")

// newTag makes the tag of a row, which holds nothing.
func newTag(svc *Service, row model.Tag, numbers *model.Numbers) *Tag {
	t := &Tag{svc: svc, name: row.Name, numbers: numbers, shardBits: row.ShardBits(), taking: make(chan struct{}, 1),
		rate:   rate{began: time.Now(), last: time.Now()},
		supply: supply{floor: row.MaxID, row: row.Step}}
	t.pool = hold.New(hold.Options{
		Source: t, Lasts: svc.opts.Runway * 10 / 9, Low: 1 - preload,
		Most: maxAhead * svc.opts.MaxStep, Timeout: svc.opts.Timeout,
		Empty:      fmt.Errorf("%w: tag %q got no segment in time", model.ErrSegmentEmpty, t.name),
		FirstPause: minBackoff, LastPause: maxBackoff, Final: ofRow, Refuse: refusedFor, Go: svc.background.Go,
	})
	return t
}

// takeOver notes what a row says that was read. Every max_id ever read says that the IDs below it were issued,
// by this process or another.
func (t *Tag) takeOver(row model.Tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.supply
	s.removed = false
	s.row = row.Step
	// A segment that was taken during the reading may or may not show in it.
	behind := s.floor > max(row.MaxID, 1) && s.raised < t.svc.reads.Load() && s.tuned > 0
	s.floor = max(s.floor, row.MaxID)
	if behind || ofRow(s.lastErr) { // the table went back in time, and the next segment lifts it; or the row was mended
		s.lastErr = nil
		t.pool.Retry()
	}
}

// remove notes that the tag has no row any more, and gives up what is held. Callers hold mu.
func (t *Tag) remove() {
	t.supply.removed, t.supply.loads = true, 0
	t.segments = nil
	t.svc.loads.Note(t, nil)
	t.pool.Drop(func(hold.Run) hold.Run { return hold.Run{} })
}

// exists says whether the tag has a row, for all that is known.
func (t *Tag) exists() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.supply.removed
}

// observe notes how fast the tag is used, and tries the database again that failed last: whether the
// next load works must not wait for a caller.
func (t *Tag) observe(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rate.observe(now, t.pool.Counts().Issued+t.beside)
	if t.supply.lastErr != nil && !ofRow(t.supply.lastErr) {
		t.pool.Retry()
	}
}

// takeIDs takes many IDs.
func (t *Tag) takeIDs(ctx context.Context, count int, dst []int64) ([]int64, error) {
	ids, err := t.pool.Take(ctx, count, dst)
	if err != nil {
		return ids, t.refuse(err)
	}
	return ids, nil
}

// refuse says why a call got nothing.
func (t *Tag) refuse(err error) error {
	switch {
	case t.svc.background.Context().Err() != nil:
		return background.ErrStopping
	case errors.Is(err, model.ErrSegmentEmpty), ofRow(err), errors.Is(err, context.Canceled):
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Errorf("%w: tag %q got no segment in time: %w", model.ErrSegmentEmpty, t.name,
		cmp.Or(t.supply.lastErr, errNoAnswer))
}

// runOf is a segment as the IDs that callers get: the region joins the numbers, and leaves room for shard bits. Those
// of a tag with a pattern are joined as they are shown.
func (t *Tag) runOf(s model.TagSegment) hold.Run {
	if t.numbers != nil {
		return hold.Run{First: s.First, Count: s.End - s.First, Stride: 1}
	}
	region := t.svc.opts.Region
	return hold.Run{First: region.Number(s.First) << t.shardBits, Count: s.End - s.First,
		Stride: region.Stride() << t.shardBits}
}

// More implements hold.Source, of the tag's pool, with one segment.
func (t *Tag) More(ctx context.Context, n int64) ([]hold.Run, error) {
	s, err := t.takeSegment(ctx, n)
	if err != nil {
		return nil, err
	}
	return []hold.Run{t.runOf(s)}, nil
}

// takeSegment takes a segment: for the pool about n IDs, or with n = 0 as many as the row's step is.
func (t *Tag) takeSegment(ctx context.Context, n int64) (model.TagSegment, error) {
	select {
	case t.taking <- struct{}{}:
		defer func() { <-t.taking }()
	case <-ctx.Done():
		return model.TagSegment{}, ctx.Err()
	}
	t.mu.Lock()
	req := model.TagRequest{Tag: t.name, Floor: t.supply.floor, Numbers: t.numbers,
		ShardBits: t.shardBits}
	if t.supply.lost {
		req.Most = 1
	}
	tuned, before := int64(0), t.supply // the row's step
	if n > 0 && before.loads >= 2 {     // Leaf tunes from the third on
		longest := max(before.tuned, t.svc.opts.MaxStep)
		tuned = max(before.row, min(longest, model.TunedStep(before.tuned, time.Since(before.takenAt))))
	}
	if req.Step = tuned; n > 2*max(tuned, before.row) {
		req.Step = max(tuned, min(n, max(t.svc.opts.MaxStep, model.MaxBatch)))
	}
	t.mu.Unlock()

	bounded, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	s, err := t.svc.opts.Table.AllocateTag(bounded, req)

	t.mu.Lock()
	defer t.mu.Unlock()
	if err = t.noteLoad(err); err != nil {
		return model.TagSegment{}, err
	}
	t.supply.lost = false
	t.noteJumps(s)
	if s.End > t.supply.floor {
		t.supply.floor, t.supply.raised = s.End, t.svc.reads.Load()
	}
	switch {
	case s.First < max(req.Floor, 1) || s.End <= s.First:
		t.noteRepeated(s, req.Floor)
		return model.TagSegment{}, t.supply.lastErr
	case t.svc.background.Context().Err() != nil: // Stop has closed the pool, or is about to
		t.svc.stats.wasted.Add(s.End - s.First)
		return model.TagSegment{}, background.ErrStopping
	}
	t.supply.removed = false
	if n > 0 {
		t.forgetUsedUp(t.nextNumber(t.pool.Counts()))
		t.segments = append(t.segments, s)
		t.supply.row, t.supply.tuned, t.supply.takenAt = s.Step, max(tuned, s.Step), time.Now()
		t.supply.loads++
		t.pool.Bound(min(t.supply.tuned, s.End-s.First), maxAhead*t.svc.opts.MaxStep)
	}
	return s, nil
}

// forgetUsedUp forgets the segments before the next ID, but for the last one. Callers hold mu.
func (t *Tag) forgetUsedUp(next int64) {
	for len(t.segments) > 1 && t.segments[0].End <= next {
		t.segments = t.segments[1:]
	}
}

// nextNumber is the number of the next ID that is held, and that after the last segment when none is.
// Callers hold mu.
func (t *Tag) nextNumber(c hold.Counts) int64 {
	switch {
	case c.Held > 0 && t.numbers == nil:
		return c.Next >> (t.svc.opts.Region.Bits + t.shardBits)
	case c.Held > 0:
		return c.Next
	case len(t.segments) > 0:
		return t.segments[len(t.segments)-1].End
	}
	return -1
}

// ofRow says whether a load failed because of the row and not of the database.
func ofRow(err error) bool {
	return errors.Is(err, model.ErrUnknownTag) || errors.Is(err, model.ErrLimitReached) ||
		errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, model.ErrUnconfirmed)
}

// noteLoad reports whether the database works, and says what callers get for the error of a load. What is wrong with
// one row, or a wait that is meant to be, is no failure of the database. Callers hold mu.
func (t *Tag) noteLoad(err error) error {
	t.supply.lastErr = err
	switch {
	case t.svc.background.Context().Err() != nil:
	case err == nil || ofRow(err) || errors.Is(err, model.ErrRate) || errors.Is(err, model.ErrJumping):
		t.svc.loads.Note(t, nil)
	default:
		t.svc.loads.Note(t, fmt.Errorf("tag %q: %w", t.name, err))
	}
	switch {
	case errors.Is(err, model.ErrUnknownTag):
		t.remove()
		return model.UnknownTag(t.name)
	case model.MayBeStored(err):
		t.supply.lost = true
	case ofRow(err):
		t.svc.events.Log(slog.LevelWarn, "no segment could be taken", "tag", t.name, "error", err)
		if !errors.Is(err, model.ErrLimitReached) { // the row is the operator's
			err = fmt.Errorf("%w: %w", model.ErrSegmentEmpty, err)
		}
	}
	return err
}

// noteRepeated is the tripwire. Callers hold mu.
func (t *Tag) noteRepeated(s model.TagSegment, floor int64) {
	t.svc.stats.repeated.Inc()
	t.svc.stats.wasted.Add(max(0, s.End-max(s.First, floor)))
	t.supply.lastErr = fmt.Errorf("segment [%d, %d) refused: IDs below %d were issued before", s.First, s.End, floor)
	t.svc.events.Log(slog.LevelError, "look for a second writer of leaf_alloc: a segment was refused, as its IDs "+
		"were issued before",
		"tag", t.name, "first", s.First, "end", s.End, "floor", floor)
}

// noteJumps counts a max_id that was below what has been issued, which nothing but a table that
// went back in time explains, and IDs that were left out because it is unknown how far. Callers hold mu.
func (t *Tag) noteJumps(s model.TagSegment) {
	if s.Lifted > 0 {
		t.svc.stats.lifts.Inc()
		t.svc.events.Log(slog.LevelWarn, "find out whether the database was restored, or the tag was added again: "+
			"max_id was below what has been issued, and was raised",
			"tag", t.name, "by", s.Lifted)
	}
	if s.Jumped > 0 {
		t.svc.stats.jumped.Add(float64(s.Jumped))
		t.svc.events.Log(slog.LevelError, "find out whether the database was restored or failed over: IDs were "+
			"skipped, as Redis cannot tell what was issued",
			"tag", t.name, "ids", s.Jumped)
	}
}
