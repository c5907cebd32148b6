package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// Tag is what this process holds of one tag. Safe for concurrent use.
//
// Most calls move the counter of the current block and do nothing else. All that
// is rarer, one block after another included, happens under mu.
type Tag struct {
	svc     *Service
	name    string
	numbers *model.Numbers        // how its IDs are shown; nil for a plain tag
	current atomic.Pointer[block] // never nil; set under mu

	mu       sync.Mutex
	ahead    []*block           // follow the current one, ascending
	aheadIDs int64              // in them
	previous *block             // used up last; nil before
	switches int64              // how often one block followed another
	waiters  background.Waiters // for IDs
	runs     background.Waiters // for runs: the count is the length, what is appended are first and last
	demand   demand
	issued   int64 // of blocks that are used up or were given up
	leftOut  int64 // IDs, as it is unknown how far the database went back
	closed   error // why nothing is issued; nil while the tag exists
	life     int   // counts how often the tag was closed

	loading bool // a goroutine loads
	step    step
	loads   int // segments taken in this life of the tag
	// floor is above every ID that is known to be handed out, by this process or,
	// as the table told, by others. It never falls while the process lives.
	floor        int64
	raised       uint64    // Service.reads when a segment raised floor last
	behind       bool      // a row was below floor: the table went back in time
	lastErr      error     // why waiters are not served; nil when the last load went well
	unloaded     bool      // the last load failed, and not because of the row
	refused      error     // why the table gives no segment to any caller
	refusedUntil time.Time // until then it is not asked again

	losses model.Losses
}

// newTag makes the tag of an entry, which holds nothing. Callers hold Service.mu.
func newTag(svc *Service, e *entry) *Tag {
	t := &Tag{svc: svc, name: e.name, numbers: e.numbers, floor: e.maxID, step: step{row: int64(e.step.Load())}, demand: demand{last: time.Now()}}
	t.current.Store(newBlock(0, 0, 0, model.Region{}))
	return t
}

// region joins the numbers of a plain tag; those of others get it as they are shown.
func (t *Tag) region() model.Region {
	if t.numbers != nil {
		return model.Region{}
	}
	return t.svc.opts.Region
}

// One issues one ID. Errors: those of Service.Next.
func (t *Tag) One(ctx context.Context) (int64, error) {
	b, n, plain := t.claimOne()
	if plain {
		return b.id(n - 1), nil
	}
	ids, err := t.finish(ctx, b, n, nil)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// claimOne claims the n-th ID of the current block. Mostly that is all; if it is
// not plain, the call ends with finish. Small enough to be inlined.
func (t *Tag) claimOne() (b *block, n int64, plain bool) {
	b = t.current.Load()
	n = b.claimed.Add(1)
	return b, n, n <= b.length && n != b.mark
}

// finish ends a call that claimed the n-th ID of a block and nothing but that: the
// one at the mark, or one that the block does not have.
func (t *Tag) finish(ctx context.Context, b *block, n int64, dst []int64) ([]int64, error) {
	if n > b.length {
		return t.takeIDs(ctx, false, 1, dst)
	}
	t.loadInTime()
	return append(dst, b.id(n-1)), nil
}

// Next issues count IDs and appends them to dst, ascending: all of them or, with
// an error, none. Errors: those of Service.Next.
func (t *Tag) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count != 1 {
		return t.many(ctx, count, dst)
	}
	b, n, plain := t.claimOne()
	if !plain {
		return t.finish(ctx, b, n, dst)
	}
	return append(dst, b.id(n-1)), nil
}

// many is Next for any count.
func (t *Tag) many(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count < 1 || count > model.MaxBatch {
		return dst, fmt.Errorf("%w: count %d is not in 1…%d", model.ErrInvalidArgument, count, model.MaxBatch)
	}
	b, n := t.current.Load(), int64(count)
	at, _, ok := b.claimIDs(n, n)
	if !ok {
		return t.takeIDs(ctx, false, count, dst)
	}
	if at < b.mark && b.mark <= at+n {
		t.loadInTime()
	}
	return b.appendTo(dst, at, n), nil
}

// grab takes count IDs from all that is held, or none. Callers hold mu.
func (t *Tag) grab(count int, dst []int64) ([]int64, bool) {
	b, n := t.current.Load(), int64(count)
	at, got, ok := b.claimIDs(n-t.aheadIDs, n)
	if !ok {
		return dst, false
	}
	dst = b.appendTo(dst, at, got)
	for n -= got; n > 0; n -= got {
		// The next block becomes the current one, with what is taken of it taken before
		// other callers see it. All IDs of the one before are claimed.
		next := t.ahead[0]
		got = min(n, next.length)
		next.claimed.Store(got)
		t.ahead = slices.Delete(t.ahead, 0, 1)
		t.aheadIDs -= next.length
		t.previous = t.current.Swap(next)
		t.issued += t.previous.length
		if t.previous.length > 0 { // Leaf's first segment is in buffer 0
			t.switches++
		}
		dst = next.appendTo(dst, 0, got)
	}
	return dst, true
}

// Run issues consecutive IDs, from first to last, a region's stride apart: as many as the row's step, or what a
// shorter segment has. Errors: those of Service.Next.
func (t *Tag) Run(ctx context.Context) (first, last int64, err error) {
	if err := t.plain(); err != nil {
		return 0, 0, err
	}
	t.mu.Lock()
	n := t.step.row
	t.mu.Unlock()
	ends, err := t.takeIDs(ctx, true, int(n), nil)
	if err != nil {
		return 0, 0, err
	}
	return ends[0], ends[1], nil
}

// grabRun takes n consecutive IDs from what is held, or none, and appends the first and
// the last of them. Where the current block has too few, they are cut off the front of
// the next one, which no other caller sees yet, and may then be fewer than n. So nothing
// is left out, and what remains of the current block is issued to callers of Next.
// Callers hold mu.
func (t *Tag) grabRun(n int, dst []int64) ([]int64, bool) {
	b, length := t.current.Load(), int64(n)
	if at, _, ok := b.claimIDs(length, length); ok {
		return append(dst, b.id(at), b.id(at+length-1)), true
	}
	if len(t.ahead) == 0 {
		return dst, false
	}
	next := t.ahead[0]
	length = min(length, next.length)
	if t.ahead[0] = newBlock(next.first+length, next.first+next.length, t.svc.opts.Preload, next.region); length == next.length {
		t.ahead = slices.Delete(t.ahead, 0, 1)
	}
	t.aheadIDs -= length
	t.issued += length
	return append(dst, next.id(0), next.id(length-1)), true
}

// held is how many IDs can be issued without the database. Callers hold mu.
func (t *Tag) held() int64 { return t.current.Load().left() + t.aheadIDs }

// issuedLocked is how many IDs callers got since the start. Callers hold mu.
func (t *Tag) issuedLocked() int64 { return t.issued + t.current.Load().used() }

// open takes over a row: of a tag that exists, or exists again. Every max_id ever
// read says that the IDs below it were handed out, by this process or another.
func (t *Tag) open(row model.Tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.svc.background.Context().Err() != nil { // Stop has closed it, or is about to
		return
	}
	t.closed, t.refusedUntil = nil, time.Time{}
	t.step.row = row.Step
	// A segment that was taken during the reading may or may not show in it.
	t.behind = t.floor > max(row.MaxID, 1) && t.raised < t.svc.reads.Load() && t.step.last > 0
	t.floor = max(t.floor, row.MaxID)
	t.startLoad(time.Now())
}

// close ends the tag: its row was removed (err is model.ErrUnknownTag), or the
// service stops. What is held is given up and counted.
func (t *Tag) close(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return
	}
	t.closed = err
	t.life++
	t.loads, t.unloaded = 0, false
	t.svc.loads.Note(t, nil)
	left, used := t.current.Swap(newBlock(0, 0, 0, model.Region{})).close()
	t.issued += used
	t.svc.stats.wasted.Add(left + t.aheadIDs)
	t.ahead, t.aheadIDs, t.previous = nil, 0, nil
	t.failAll(err)
}

// failAll ends all waiting. Callers hold mu.
func (t *Tag) failAll(err error) {
	t.waiters.FailAll(err)
	t.runs.FailAll(err)
}

// takeIDs takes n IDs, or a run, from what is held or waits for a segment. The caller's
// context or the timeout ends it. What a waiter did not get it has not taken.
func (t *Tag) takeIDs(ctx context.Context, run bool, n int, dst []int64) ([]int64, error) {
	queue, grab := &t.waiters, t.grab
	if run {
		queue, grab = &t.runs, t.grabRun
	}
	ids, w, err := t.takeOrQueue(queue, grab, n, dst)
	if w != nil {
		patience, cancel := context.WithTimeoutCause(ctx, t.svc.opts.Timeout, model.ErrSegmentEmpty)
		defer cancel()
		ids, err = queue.Await(patience, &t.mu, w, t.gaveUp)
	}
	if err != nil {
		t.svc.stats.refused.Add(1)
		if errors.Is(err, model.ErrSegmentEmpty) {
			t.svc.stats.starved.Add(1)
		}
	}
	return ids, err
}

// takeOrQueue grabs what a caller wants, says why there never will be any, or makes the
// caller wait for it in the queue.
func (t *Tag) takeOrQueue(queue *background.Waiters, grab func(int, []int64) ([]int64, bool), n int,
	dst []int64) ([]int64, *background.Waiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	ids, ok := grab(n, dst)
	switch {
	case ok:
		t.startLoad(now)
		return ids, nil, nil
	case t.closed != nil:
		return dst, nil, t.closed
	case now.Before(t.refusedUntil):
		return dst, nil, t.refused
	}
	w := queue.Add(n, dst)
	t.svc.stats.waits.Add(1)
	t.startLoad(now)
	return dst, w, nil
}

// gaveUp explains why a waiter that ran out of time was not served.
func (t *Tag) gaveUp(cause error) error {
	if !errors.Is(cause, model.ErrSegmentEmpty) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.lastErr
	if err == nil {
		err = errors.New("the database has not answered yet")
	}
	return fmt.Errorf("%w: tag %q got no segment in time, try again: %w", model.ErrSegmentEmpty, t.name, err)
}
