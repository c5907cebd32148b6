// Package background is what the services have in common beside the IDs they issue:
// work that ends with its service, work that is done for many callers together,
// and log lines that may come too often.
package background

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
)

// ErrStopping is what callers get while the service stops.
var ErrStopping = fmt.Errorf("%w: %w: shutting down", model.Do("ask another replica"), model.ErrNotReady)

// Reporter is told how something that is tried again and again went: nil when it
// works. It must not block.
type Reporter interface {
	Report(condition string, err error)
}

// Group is the background work of one service, from Start to Stop. Safe for concurrent
// use.
type Group struct {
	name   string // for errors
	ctx    context.Context
	cancel context.CancelFunc
	start  sync.Once

	mu      sync.Mutex // guards stopped, and wg against Add after Wait
	stopped bool
	wg      sync.WaitGroup

	waitsFor atomic.Pointer[error] // why Initialise has not succeeded yet
}

// NewGroup makes the group of a service, which is called name in errors.
func NewGroup(name string) *Group {
	g := &Group{name: name}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Context ends when Stop is called.
func (g *Group) Context() context.Context { return g.ctx }

// Start is Go for the first call; later ones do nothing.
func (g *Group) Start(f func()) { g.start.Do(func() { g.Go(f) }) }

// Go runs f in the background and Stop waits for it; false means that the service is
// stopping and f will not run.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped {
		g.wg.Go(f)
	}
	return !g.stopped
}

// Do runs f in the background and returns its error. When ctx ends first, that is the
// error and f continues. While the service stops the error is ErrStopping.
func (g *Group) Do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	if !g.Go(func() { done <- f() }) {
		return ErrStopping
	}
	return g.Await(ctx, done)
}

// Await gives what comes from done. When ctx ends first, the error is its cause, and ErrStopping while the service
// stops.
func (g *Group) Await(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.ctx.Done():
		return ErrStopping
	}
}

// Sleep waits for d or until the service stops; false means it stops.
func (g *Group) Sleep(d time.Duration) bool { return Pause(g.ctx, d, nil) }

// Pause waits for d, for the end of ctx, or until early is closed or has a value; it says
// whether d has passed.
func Pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-early:
	case <-ctx.Done():
	}
	return false
}

// Every calls f now and then once each period, until the service stops.
// A call that takes longer than the period delays the next.
func (g *Group) Every(period time.Duration, f func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		f()
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
	}
}

// Stop ends the context, calls first, but only the first time, and waits for all
// background work or the end of ctx, which is then the error. first may be nil.
func (g *Group) Stop(ctx context.Context, first func()) error {
	g.mu.Lock()
	again := g.stopped
	g.stopped = true
	g.mu.Unlock()
	g.cancel()
	if !again && first != nil {
		first()
	}
	done := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop %s: %w", g.name, ctx.Err())
	}
}

// The pauses between two tries to initialise, so that serving begins soon after a
// store's arrival.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Initialise calls try until it succeeds; false means the service stops.
func (g *Group) Initialise(try func() error) bool {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := try()
		if err == nil {
			return true
		}
		g.waitsFor.Store(&err)
		if !g.Sleep(pause) {
			return false
		}
	}
}

// NotReady is model.ErrNotReady with what Initialise waits for. It is never nil.
func (g *Group) NotReady() error {
	if err := g.waitsFor.Load(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrNotReady, *err)
	}
	return fmt.Errorf("%w: starting", model.ErrNotReady)
}
