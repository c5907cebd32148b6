package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// list is what this replica holds of one list of the store: IDs taken ahead of
// demand, and the callers that wait for more.
type list struct {
	svc *Service
	key model.ListKey

	mu       sync.Mutex
	cfg      model.ListConfig
	scramble *model.Scrambler // nil: IDs are not scrambled
	step     int64            // length of the last segment, in indices; the low watermark is a share of it
	slow     bool             // pushing it took so long that the next should not be longer
	ids      []int64
	head     int // ids[head:] are not issued yet
	waiters  background.Waiters
	demand   demand
	issued   int64
	refills  int64 // segments pushed by this process
	depth    int64 // indices in the store, as seen last; -1 is unknown
	stocked  bool  // this process saw indices in the store
	closed   error // why the list is used no more; nil while it is

	fetching bool          // a goroutine pops on behalf of the waiters
	refill   chan struct{} // closed when the refill in flight ends; nil when none is
	// refillErr is how the last refill ended.
	refillErr error
	soon      bool      // a refill in the background is due
	again     bool      // a refill was due while another was in flight
	setbacks  *setbacks // nil while no refill has failed
	lastErr   error     // why waiters were not served last; nil since a pop gave something

	// life and highest are the tripwire: within one life indices only
	// rise, so one at or below highest was given out before.
	life    string
	highest int64
	popped  int64 // indices popped in this life since the last refill
	known   int64 // highest index this process knows to be handed out
}

// configure takes over a new configuration and says whether IDs wrapped under the one
// before.
func (l *list) configure(cfg model.ListConfig) (wrapped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrapped = l.cfg.Limit.Policy == model.LimitWrap
	if limit := cfg.Limit; limit != l.cfg.Limit {
		if l.setbacks != nil {
			l.setbacks.pauseUntil = time.Time{}
		}
		if wrapped || limit.Policy == model.LimitWrap { // folded IDs do not tell what is allowed
			l.drop()
		} else if limit.MaxID != 0 { // held IDs rise
			n := sort.Search(l.held(), func(i int) bool { return l.ids[l.head+i] > limit.MaxID })
			l.svc.stats.dropped.Add(int64(l.held() - n))
			l.ids = l.ids[:l.head+n]
		}
	}
	if cfg.Scramble != l.cfg.Scramble { // of a new list: it never changes
		l.scramble = model.NewScrambler(cfg.Scramble, l.key, l.svc.opts.Region)
	}
	l.cfg = cfg
	l.step = max(cfg.Step, cfg.CurrentStep, 1)
	l.known = max(l.known, cfg.MaxID)
	return wrapped
}

// saw notes what the store says. Callers hold mu.
func (l *list) saw(st model.ListState) {
	l.known = max(l.known, st.HighWater)
	l.depth, l.stocked = st.Len, l.stocked || st.Len > 0
}

// drop gives up the IDs that are held. Callers hold mu.
func (l *list) drop() {
	l.svc.stats.dropped.Add(int64(l.held()))
	l.ids, l.head = nil, 0
}

func (l *list) held() int { return len(l.ids) - l.head }

// takeIndices moves n held IDs to dst, or none if fewer are held. Callers hold mu.
func (l *list) takeIndices(n int, dst []int64) ([]int64, bool) {
	if l.held() < n {
		return dst, false
	}
	dst = append(dst, l.ids[l.head:l.head+n]...)
	l.head += n
	l.issued += int64(n)
	if l.head == len(l.ids) {
		l.ids, l.head = l.ids[:0], 0
		if cap(l.ids) > 2*l.svc.opts.PrefetchMax { // left by a large batch
			l.ids = nil
		}
	}
	return dst, true
}

// tryTake takes n IDs if so many are held, and fetches more in time.
func (l *list) tryTake(n int, dst []int64) ([]int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dst, ok := l.takeIndices(n, dst)
	if ok && fetchBelow*l.held() < l.ahead() {
		l.startFetch()
	}
	return dst, ok
}

// await waits for n IDs. The caller's context or the timeout ends it.
func (l *list) await(ctx context.Context, n int, dst []int64) ([]int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.svc.opts.Timeout, model.ErrQueueEmpty)
	defer cancel()
	l.mu.Lock()
	w := l.waiters.Add(n, dst)
	l.waiters.Serve(l.takeIndices)
	if len(l.waiters) > 0 {
		l.startFetch()
	}
	l.mu.Unlock()
	ids, err := l.waiters.Await(ctx, &l.mu, w, l.gaveUp)
	if errors.Is(err, model.ErrQueueEmpty) {
		l.svc.stats.starved.Add(1)
	}
	return ids, err
}

// gaveUp explains why a waiter that ran out of time was not served.
func (l *list) gaveUp(cause error) error {
	if !errors.Is(cause, model.ErrQueueEmpty) {
		return cause
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.lastErr
	if err == nil {
		err = errors.New("the stores have not answered yet")
	}
	return fmt.Errorf("%w: list %s gave nothing within %v, try again: %w", cause, l.key, l.svc.opts.Timeout, err)
}

// fail ends all waiting with err.
func (l *list) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters.FailAll(err)
}

// close ends the list: its app was removed (err is model.ErrUnknownApp), or the
// service stops. What it holds is dropped and counted.
func (l *list) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = err
	l.drop()
	l.waiters.FailAll(err)
	l.svc.stats.issued.Add(l.issued)
	l.issued = 0
}

// isLow says whether a list of that length is due for a refill. Callers hold mu.
func (l *list) isLow(length int64) bool {
	return float64(length) <= l.svc.opts.LowWatermark*float64(min(l.step, l.spare()))
}

// deliver takes over what was popped and serves the waiters. It says whether an
// index was above the app's limit, as all later ones then are, and whether what is left
// in the store is due for a refill.
func (l *list) deliver(p model.Popped) (overLimit, low bool) {
	l.svc.purged(l.key, p.Purged)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Life != l.life {
		l.life, l.highest, l.popped = p.Life, 0, 0
	}
	l.popped += int64(len(p.Indices))
	l.depth, l.stocked = p.Len, l.stocked || len(p.Indices) > 0
	l.ids, l.head = append(l.ids[:0], l.ids[l.head:]...), 0
	region := l.svc.opts.Region
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
		if region.Refuses(l.cfg.Limit) != nil {
			err = model.ErrLimitReached
		}
		switch {
		case err != nil:
			overLimit = true
			l.svc.stats.overLimit.Add(1)
		case id != 0: // 0 is what wrap makes of the limit itself: no ID
			l.ids = append(l.ids, id)
		}
	}
	if refused > 0 {
		l.svc.repeated(l.key, refused, last, l.highest, l.life)
	}
	l.known = max(l.known, l.highest)
	if len(p.Indices) > 0 {
		l.lastErr = nil
	}
	l.waiters.Serve(l.takeIndices)
	return overLimit, l.isLow(p.Len)
}

func (l *list) limitReached() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.svc.opts.Region.Refuses(l.cfg.Limit); err != nil {
		return fmt.Errorf("%w: list %s: %w", model.ErrLimitReached, l.key, err)
	}
	if l.cfg.Limit.MaxID == 0 || l.cfg.Limit.Policy == model.LimitWrap {
		return fmt.Errorf("%w: list %s has used all %d indices: provision another app", model.ErrLimitReached, l.key, l.svc.opts.Region.MaxIndex())
	}
	return fmt.Errorf("%w: list %s: the next ID would exceed max_limit_id %d: raise it or provision another app",
		model.ErrLimitReached, l.key, l.cfg.Limit.MaxID)
}

// tellLimit logs a refusal of an app under its limit.
func (l *list) tellLimit(err error) {
	l.mu.Lock()
	name, limit := l.cfg.AppName, l.cfg.Limit
	l.mu.Unlock()
	do := "provision another app"
	if limit.MaxID != 0 && limit.Policy == model.LimitReject {
		do = "raise max_limit_id or provision another app; " + model.WrapAdvice(l.key.App, name)
	}
	l.svc.rare.Log(slog.LevelWarn, fmt.Sprintf("app %d has reached its limit: its callers get -5", l.key.App),
		"name", name, "max_limit_id", limit.MaxID, "do", do, "error", err)
}
