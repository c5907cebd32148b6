package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/background"
)

// A list takes IDs from the store ahead of its callers: its pool (client/hold) holds what was taken and
// lets callers wait, and the list is the source of this pool. The pool makes one call at a time, so what
// it pops within a life of the list only rises; what does not was given out before and is refused. That
// is the tripwire.
//
// A list in steady use is popped four times a second for as many indices as were taken within a quarter of
// a second: 64 lists at 32 000 requests a second together cost one pop for 125 IDs. A list with a caller a
// second costs one index a call. A list that is used is popped again when a quarter of what it holds is
// left, which lasts for some round trips to the store, and a crash loses a third of a second's IDs.
const (
	heldLasts = 333 * time.Millisecond
	popBelow  = 0.25
	// popTimeout bounds one pop; the store's own timeouts are shorter.
	popTimeout = 3 * time.Second
	// firstPause and lastPause bound the pause after a pop that gave nothing. The end of a refill ends it.
	firstPause = 2 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	// exhaustedFor is how long a list that reached its limit, or waits for an operator's word, is not asked,
	// so that its callers do not each cost a transaction.
	exhaustedFor = time.Second
	// lowWatermark is the share of the step at which a list is refilled.
	lowWatermark = 0.2
	// aheadShare is the share of the indices that are left, one part in so many, that a replica may hold
	// ahead of demand: a crash loses them. Near the limit there are none, so that the last indices go to
	// the first who ask.
	aheadShare = 100_000
	// spareShare is the share of the indices that are left, one part in so many, that a segment may have
	// beside what callers wait for, and leastSpare is how many it may have in any case: a list that is lost
	// never costs much of a small space.
	spareShare = 1000
	leastSpare = 8
)

// list is what this replica knows and holds of one list of the store.
type list struct {
	svc  *Service
	key  model.ListKey
	pool atomic.Pointer[hold.Pool] // what is held, and who waits; nil until the first caller; set under mu

	mu       sync.Mutex // guards what follows; a pool may be called with it
	cfg      model.ListConfig
	scramble *model.Scrambler // nil: IDs are not scrambled
	closed   error            // why the list is used no more; nil while it is
	life     string           // of the store, in which highest was popped
	highest  int64            // index that was popped in this life
	known    int64            // highest index that this process knows to be allocated
	depth    int64            // indices in the store, as seen last; -1 before that
	step     int64            // length of the last segment, in indices; the low watermark is a share of it
	popped   int64            // indices popped in this life since the last segment
	lacking  int64            // indices that callers wait for and the last pop did not give
	refill   refill
}

// openPool is the pool. It is made for the first caller: there are thousands of lists, few of which are used.
func (l *list) openPool() *hold.Pool {
	if p := l.pool.Load(); p != nil {
		return p
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pool.Load(); p != nil {
		return p
	}
	p := hold.New(hold.Options{
		Source: l, Lasts: heldLasts, Low: popBelow, Most: l.ahead(), Timeout: l.svc.opts.Timeout, Empty: l.svc.empty,
		FirstPause: firstPause, LastPause: lastPause, Final: isFinal, Refuse: exhaustedFor, Go: l.svc.background.Go,
	})
	if l.closed != nil {
		p.Close(l.closed)
	}
	l.pool.Store(p)
	return p
}

// counts are those of the pool.
func (l *list) counts() hold.Counts {
	if p := l.pool.Load(); p != nil {
		return p.Counts()
	}
	return hold.Counts{}
}

// waits says whether a caller waits.
func (l *list) waits() bool { return l.counts().Waiting > 0 }

// configure takes over a new configuration and says whether IDs wrapped under the one before.
func (l *list) configure(cfg model.ListConfig) (wrapped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, pool := l.cfg.Limit, l.pool.Load()
	wrapped = before.Policy == model.LimitWrap
	if cfg.Scramble != l.cfg.Scramble { // of a new list: it never changes
		l.scramble = model.NewScrambler(cfg.Scramble, l.key, l.svc.opts.Region)
	}
	l.cfg = cfg
	l.step = max(cfg.Step, cfg.CurrentStep, 1)
	l.known = max(l.known, cfg.MaxID)
	if cfg.Limit == before {
		return wrapped
	}
	if l.refill.phase == paused {
		l.refill.phase, l.refill.err = idle, nil
	}
	if pool != nil {
		folded := wrapped || cfg.Limit.Policy == model.LimitWrap // such IDs do not tell what is allowed
		pool.Drop(func(r hold.Run) hold.Run {
			if folded {
				r.Count = 0
			} else if most := cfg.Limit.MaxID; most != 0 {
				r.Count = min(r.Count, max(0, most-r.First+r.Stride)/r.Stride)
			}
			return r
		})
		pool.Bound(0, l.ahead())
		pool.Wake()
	}
	return wrapped
}

// close ends the list: its app was removed (err is model.ErrUnknownApp), or the service stops. What it
// holds is given up.
func (l *list) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = err
	if l.refill.resume != nil {
		l.refill.resume.Stop()
	}
	if p := l.pool.Load(); p != nil {
		p.Close(err)
	}
	l.note(l.svc.failedPops, nil)
	l.note(l.svc.failedRefills, nil)
}

// note takes the outcome of a pop or of a refill. A list that is closed fails no more; while the service
// stops all may. Callers hold mu.
func (l *list) note(of *background.Failing[*list], err error) {
	if l.closed != nil {
		err = nil
	}
	if l.svc.background.Context().Err() == nil {
		of.Note(l, err)
	}
}

// left is how many indices can still be allocated under the limit, at most. Callers hold mu.
func (l *list) left() int64 { return max(0, l.last()-l.known) }

// last is the last index under the limit. Callers hold mu.
func (l *list) last() int64 { return min(l.cfg.Limit.LastIndex(l.key), l.svc.opts.Region.MaxIndex()) }

// ahead is how many indices may be held ahead of demand. Callers hold mu.
func (l *list) ahead() int64 { return min(int64(l.svc.opts.PrefetchMax-1), l.left()/aheadShare) }

// spare is how many indices a segment may have beside what callers wait for. Callers hold mu.
func (l *list) spare() int64 { return max(leastSpare, l.left()/spareShare) }

// isLow says whether a list of that length is due for a refill. Callers hold mu.
func (l *list) isLow(length int64) bool {
	return float64(length) <= lowWatermark*float64(min(l.step, l.spare()))
}

// More implements hold.Source: it pops, and has the list refilled that is low, before others if a caller
// waits. With nothing to give it says why once a refill has ended without indices.
func (l *list) More(ctx context.Context, n int64) ([]hold.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, popTimeout)
	defer cancel()
	n = min(n, model.MaxBatch)
	p, err := l.svc.opts.Lists.Pop(ctx, l.key, int(n))
	l.svc.purged(l.key, p.Purged)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.note(l.svc.failedPops, err)
		if l.refill.phase == idle {
			l.pauseRefill(err, retryPause)
		}
		return nil, fmt.Errorf("list %s: %w", l.key, err)
	}
	l.note(l.svc.failedPops, nil)
	runs, over := l.accept(p)
	l.pool.Load().Bound(0, l.ahead())
	waits := l.waits()
	l.lacking = 0
	if waits {
		l.lacking = n - int64(len(p.Indices))
	}
	if !over && l.isLow(p.Len) {
		l.refillSoon(waits)
	}
	switch failed := l.refill.err; {
	case len(runs) > 0:
		return runs, nil
	case over:
		return nil, l.limitReached()
	case failed == nil || isFinal(failed) && l.refill.phase != paused: // which may be over
		return nil, nil
	case errors.Is(failed, model.ErrLimitReached):
		return nil, l.limitReached()
	case errors.Is(failed, model.ErrUnconfirmed):
		return nil, fmt.Errorf("%w: list %s: %w", model.ErrQueueEmpty, l.key, failed)
	default:
		return nil, fmt.Errorf("list %s: %w", l.key, failed)
	}
}

// isFinal says whether waiting would not mend an error.
func isFinal(err error) bool {
	return atEnd(err) || errors.Is(err, model.ErrUnconfirmed)
}

// accept makes IDs of what was popped. over says that an index was above the app's limit, as all later ones
// then are. Callers hold mu.
func (l *list) accept(p model.Popped) (runs []hold.Run, over bool) {
	if p.Life != l.life {
		l.life, l.highest, l.popped = p.Life, 0, 0
	}
	if len(p.Indices) > 0 {
		l.refill.lockedSince = time.Time{} // whoever refills it does so
	}
	l.popped += int64(len(p.Indices))
	l.depth = p.Len
	region, stride := l.svc.opts.Region, l.key.Compose(1)-l.key.Compose(0)
	none := region.Refuses(l.cfg.Limit) // of this region's IDs lies below the limit
	var refused, last int64
	for _, index := range p.Indices {
		if index <= l.highest || index > region.MaxIndex() {
			refused, last = refused+1, index
			continue
		}
		l.highest = index
		if l.scramble != nil {
			index = l.scramble.Scramble(index)
		}
		id, err := l.cfg.Limit.Apply(l.key.Compose(region.Index(index)))
		switch n := len(runs) - 1; {
		case err != nil, none != nil:
			over = true
			l.svc.stats.wasted["over_limit"].Inc()
		case id == 0: // no ID: what wrap makes of the limit itself
		case n >= 0 && id == runs[n].First+runs[n].Count*stride:
			runs[n].Count++
		default:
			runs = append(runs, hold.Run{First: id, Count: 1, Stride: stride})
		}
	}
	if refused > 0 {
		l.svc.repeated(l.key, refused, last, l.highest, l.life)
	}
	l.known = max(l.known, l.highest)
	return runs, over
}

// limitReached is what callers get at the limit. Callers hold mu.
func (l *list) limitReached() error {
	region, limit := l.svc.opts.Region, l.cfg.Limit
	if err := region.Refuses(limit); err != nil {
		return fmt.Errorf("%w: list %s: %w", model.ErrLimitReached, l.key, err)
	}
	if limit.MaxID == 0 || limit.Policy == model.LimitWrap {
		return fmt.Errorf("%w: %w: list %s has used all %d indices", model.Do("provision another app"),
			model.ErrLimitReached, l.key, region.MaxIndex())
	}
	return fmt.Errorf("%w: %w: list %s: the next ID would exceed max_limit_id %d",
		model.Do("raise max_limit_id, or provision another app"), model.ErrLimitReached, l.key, limit.MaxID)
}
