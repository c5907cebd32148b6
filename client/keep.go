package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardid/client/idgen"
)

const (
	// A request that failed is repeated after firstRetry, then after pauses that double up to
	// lastRetry, but not later than a quarter of the time between renewals.
	firstRetry, lastRetry = time.Second, 10 * time.Second
	// clocksApart is how far this machine's clock may differ from the database's without a
	// word.
	clocksApart = 5 * time.Second
)

// Generator leases a worker ID of a name, within Options.Timeout. Then it waits for the first
// instant whose IDs no earlier holder may have made, as long as ctx allows. That is at once, as a
// rule; after the database went on from a copy that may lack leases it takes up to the name's hold
// and 10 s.
//
// Errors: *Error, with CodeUnknown for a name that there is not; ErrTimeout, with the cause, such
// as that no worker ID is free; ErrNoLease for a clock that is outside of the lease and more than
// 5 s from that of the database; ErrClosed; the context's; others as of Source.Next.
func (c *Client) Generator(ctx context.Context, name string) (*Generator, error) {
	if c.base == nil {
		return nil, ErrZero
	}
	g := &Generator{client: c, name: name, hurry: make(chan struct{}, 1), clock: idgen.SystemClock()}
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Generator) open(ctx context.Context) error {
	c := g.client
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	l, err := c.acquire(asking, g.name)
	if c.base.Err() != nil {
		return ErrClosed
	}
	if err != nil {
		return err
	}
	g.begin(l)
	g.note(nil, l)
	g.base, g.cancel = context.WithCancel(c.base)
	c.mu.Lock()
	isClosed := c.closed
	if !isClosed {
		c.generators[g] = struct{}{}
		g.keeping.Go(g.keep)
	}
	c.mu.Unlock()
	if isClosed {
		return errors.Join(ErrClosed, g.Close())
	}
	if err := g.usable(ctx, l); err != nil {
		return errors.Join(err, g.Close())
	}
	return nil
}

// usable waits until the clock is in the time of the lease l, or of one that follows.
func (g *Generator) usable(ctx context.Context, l lease) error {
	for longest := time.Duration(max(l.After-l.Now, 0))*time.Millisecond + clocksApart; ; {
		t := g.term.Load()
		if t.ended != nil {
			return t.ended
		}
		wall, _ := g.clock()
		ms, until := wall/int64(time.Millisecond), t.until.Load()
		wait := time.Duration(t.lease.After+1-ms) * time.Millisecond
		switch {
		case wait <= 0 && ms <= until:
			return nil
		case ms > until && until > t.lease.After:
			return g.over(t, ms)
		case wait > longest:
			return g.explain(t, &idgen.RefusalError{
				Reason: idgen.ErrTooEarly, Now: ms, Bound: t.lease.After, Wait: wait,
			})
		}
		select {
		case <-time.After(min(max(wait, time.Millisecond), 50*time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("shardid: while the time of a worker ID was waited for: %w", ctx.Err())
		}
	}
}

// WorkerID is that of the present lease; the next lease may have another one. It is -1 while a
// lease that was lost is not replaced yet, and after Close.
func (g *Generator) WorkerID() int {
	if t := g.term.Load(); t != nil && t.ended == nil {
		return int(t.lease.WorkerID)
	}
	return -1
}

// Close issues nothing more and releases the worker ID, within Options.Timeout. An error says that
// it stays leased for a while. It may be called twice.
func (g *Generator) Close() error {
	if g.client == nil {
		return ErrZero
	}
	g.closing.Do(func() {
		g.cancel()
		g.keeping.Wait()
		g.end(ErrClosed)
		if g.held {
			// Where no ID was issued, After may still be above Until.
			used := min(max(g.last, g.lease.After), g.lease.Until)
			g.closed = g.client.release(context.Background(), g.lease, max(used, 1))
		}
		g.client.mu.Lock()
		defer g.client.mu.Unlock()
		delete(g.client.generators, g)
	})
	return g.closed
}

// closeAll closes generators together.
func closeAll(generators []*Generator) error {
	errs := make([]error, len(generators))
	var all sync.WaitGroup
	for i, g := range generators {
		all.Go(func() { errs[i] = g.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// begin takes up a lease, after the last term has ended. Its IDs are later.
func (g *Generator) begin(l lease) {
	g.lease, g.held = l, true
	g.term.Store(newTerm(l, g.last, g.clock))
}

// end ends the term: no ID of it is issued once this returns.
func (g *Generator) end(reason error) {
	t := g.term.Load()
	t.gen.End(reason)
	g.last = max(g.last, t.gen.LastIssued())
	g.term.Store(&term{gen: t.gen, lease: t.lease, ended: reason})
}

// note remembers how a request ended, for the errors of callers.
func (g *Generator) note(cause error, l lease) {
	wall, _ := g.clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause = cause; cause == nil {
		g.ahead = time.Duration(wall/int64(time.Millisecond)-l.Now) * time.Millisecond
	}
}

// over is the error for a time after the end of the lease. It has the lease renewed now: a machine
// that slept needs that.
func (g *Generator) over(t *term, ms int64) error {
	select {
	case g.hurry <- struct{}{}:
	default:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	until := t.until.Load()
	err := fmt.Errorf("%w: that of worker ID %d of the name %q ended at %s, %v ago",
		ErrNoLease, t.lease.WorkerID, t.lease.Name, formatMs(until), time.Duration(ms-until)*time.Millisecond)
	switch {
	case g.cause != nil:
		return fmt.Errorf("%w, as it was not renewed: %w", err, g.cause)
	case until == t.lease.maxMs():
		return fmt.Errorf("%w: its bits of time are used up: a name with a later epoch is needed", err)
	case g.ahead > clocksApart:
		return fmt.Errorf("%w: the clock of this machine is %v ahead of the database's: set it", err, g.ahead)
	}
	return fmt.Errorf("%w, and is being renewed: this process, or its machine, stood still", err)
}

// keep renews the lease until Close, and replaces it when it is lost.
func (g *Generator) keep() {
	var retry time.Duration // 0: the last request succeeded
	for g.pause(retry) {
		err := g.again()
		if g.base.Err() != nil {
			return
		}
		g.note(err, g.lease)
		switch {
		case err == nil:
			retry = 0
		case retry == 0:
			retry = firstRetry
		default:
			retry = min(2*retry, lastRetry)
		}
	}
}

// pause waits for the time of the next request; false for no more. When the last one succeeded a
// caller may hurry it, but not within firstRetry.
func (g *Generator) pause(retry time.Duration) bool {
	wait, hurry := g.lease.renew(), g.hurry
	if retry > 0 {
		wait, hurry = min(retry, wait/4), nil
	}
	early := min(wait, firstRetry)
	select {
	case <-time.After(early):
	case <-g.base.Done():
		return false
	}
	select {
	case <-time.After(wait - early):
	case <-hurry:
	case <-g.base.Done():
		return false
	}
	return true
}

// again renews the lease, or leases anew when there is none.
func (g *Generator) again() error {
	if g.held {
		l, err := g.client.renew(g.base, g.lease)
		if err == nil {
			g.lease = l
			g.term.Load().extend(l.Until)
			return nil
		}
		if !isLost(err) {
			return err
		}
		g.held, g.lost = false, formatMs(time.Now().UnixMilli())
		g.end(g.without(err))
	}
	l, err := g.client.acquire(g.base, g.name)
	if err != nil {
		err = g.without(err)
		g.end(err)
		return err
	}
	g.begin(l)
	return nil
}

// without is the error of a generator that has no lease.
func (g *Generator) without(cause error) error {
	return fmt.Errorf("%w for the name %q since %s: %w", ErrNoLease, g.name, g.lost, cause)
}
