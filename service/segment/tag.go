package segment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
)

// Tag is what this process holds of one tag. Safe for concurrent use.
//
// Most calls move the counter of the current block and do nothing else. All that
// is rarer, one block after another included, happens under mu.
type Tag struct {
	svc     *Service
	name    string
	current atomic.Pointer[block] // never nil; set under mu

	mu       sync.Mutex
	ahead    []*block // follow the current one, ascending
	aheadIDs int64    // in them
	previous *block   // used up last; nil before
	switches int64    // how often one block followed another
	waiters  []*waiter
	demand   demand
	issued   int64 // of blocks that are used up or were given up
	closed   error // why nothing is issued; nil while the tag exists
	life     int   // counts how often the tag was closed

	loading bool // a goroutine loads
	step    step
	loads   int // segments taken in this life of the tag
	// floor is above every ID that is known to be handed out, by this process or,
	// as the table told, by others. It never falls while the process lives.
	floor         int64
	floorAtReload int64     // what floor was before the row was read last
	behind        bool      // the row was below that: the table went back in time
	lastErr       error     // why waiters are not served; nil when the last load went well
	unloaded      bool      // the last load failed, and not because of the row
	refused       error     // why the table gives no segment, whoever asks
	refusedUntil  time.Time // until then it is not asked again
}

func newTag(svc *Service, name string) *Tag {
	t := &Tag{svc: svc, name: name}
	t.current.Store(newBlock(0, 0))
	t.demand.last = time.Now()
	return t
}

// One issues one ID. Errors: those of Service.Next.
func (t *Tag) One(ctx context.Context) (int64, error) {
	b, n, plain := t.claimOne()
	if plain {
		return b.first + n - 1, nil
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
		return t.take(ctx, 1, dst)
	}
	t.loadInTime()
	return append(dst, b.first+n-1), nil
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
	return append(dst, b.first+n-1), nil
}

// many is Next for any count.
func (t *Tag) many(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if count < 1 || count > MaxBatch {
		return dst, fmt.Errorf("%w: count %d is not in 1…%d", model.ErrInvalidArgument, count, MaxBatch)
	}
	b, n := t.current.Load(), int64(count)
	at, _, ok := b.claim(n, n)
	if !ok {
		return t.take(ctx, n, dst)
	}
	if at < b.mark && b.mark <= at+n {
		t.loadInTime()
	}
	return b.appendTo(dst, at, n), nil
}

// grab takes n IDs from all that is held, or none. Callers hold mu.
func (t *Tag) grab(n int64, dst []int64) ([]int64, bool) {
	b := t.current.Load()
	at, got, ok := b.claim(n-t.aheadIDs, n)
	if !ok {
		return dst, false
	}
	dst = b.appendTo(dst, at, got)
	for n -= got; n > 0; n -= got {
		got = min(n, t.ahead[0].length)
		dst = t.advance(got, dst)
	}
	return dst, true
}

// advance makes the next block the current one, whose IDs are all claimed, with
// the first n of it taken before anybody else sees it. Callers hold mu.
func (t *Tag) advance(n int64, dst []int64) []int64 {
	next := t.ahead[0]
	next.claimed.Store(n)
	t.ahead = slices.Delete(t.ahead, 0, 1)
	t.aheadIDs -= next.length
	t.previous = t.current.Swap(next)
	t.issued += t.previous.length
	if t.previous.length > 0 { // Leaf's first segment is in buffer 0
		t.switches++
	}
	return next.appendTo(dst, 0, n)
}

// held is how many IDs can be issued without the database. Callers hold mu.
func (t *Tag) held() int64 { return t.current.Load().left() + t.aheadIDs }

// isDry says whether no ID can be issued without the database.
func (t *Tag) isDry() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held() == 0
}

// issuedLocked is how many IDs callers got since the start. Callers hold mu.
func (t *Tag) issuedLocked() int64 { return t.issued + t.current.Load().used() }

func (t *Tag) issuedSoFar() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.issuedLocked()
}

// open takes over a row: of a tag that exists, or exists again. Every max_id ever
// read says that the IDs below it were handed out, by whomever.
func (t *Tag) open(row model.Tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.svc.ctx.Err() != nil { // Stop has closed it, or is about to
		return
	}
	t.closed, t.refusedUntil = nil, time.Time{}
	t.step.row = row.Step
	t.behind = t.floorAtReload > max(row.MaxID, 1) && t.step.last > 0
	t.floor = max(t.floor, row.MaxID)
	if t.wanted(time.Now()) {
		t.startLoad()
	}
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
	t.drop()
	t.failLocked(err)
}

// drop gives up what is held. Callers hold mu.
func (t *Tag) drop() {
	left, used := t.current.Swap(newBlock(0, 0)).close()
	t.issued += used
	t.svc.stats.wasted.Add(left + t.aheadIDs)
	t.ahead, t.aheadIDs, t.previous = nil, 0, nil
}
