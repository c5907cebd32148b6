package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"shardid/client/idgen"
)

var (
	// ErrNoLease is in the error of a Generator that has no worker ID now, or no time left of
	// it. The error says why.
	ErrNoLease = errors.New("shardid: no lease of a worker ID")
	// ErrClockBack is in the error of a Generator whose clock was set back below the time of
	// the last ID. It ends when the clock is there again.
	ErrClockBack = errors.New("shardid: the clock was set back")
)

const (
	// A request that failed is repeated after firstRetry, then after pauses that double up to
	// lastRetry, but not later than a quarter of the time between renewals.
	firstRetry, lastRetry = time.Second, 10 * time.Second
	// clocksApart is how far this machine's clock may be behind the database's.
	clocksApart = 5 * time.Second
)

// Generator makes snowflakes in the process, with a worker ID of a name that it leases from
// shardid and renews in the background. Make one with Client.Generator, share it, and Close it.
// Safe for concurrent use.
//
// An ID has the milliseconds since the name's epoch above the worker ID above a sequence. The
// IDs of a generator rise, and no other holder of a worker ID of the name makes the same. An ID
// is not ahead of the clock; after a millisecond that was used up it may lag by 100 ms.
//
// While no replica answers, a generator continues to the end of its lease, 40 to 60 s by default. Then it
// refuses with ErrNoLease, and resumes by itself when a replica answers. A process that is copied
// with its memory makes IDs twice, as the package's comment says.
type Generator struct {
	gen    *idgen.Generator // of the layout, which a name keeps
	client *Client
	name   string
	layout idgen.Layout

	cancel context.CancelFunc // ends the goroutine that renews, which releases the worker ID
	hurry  chan struct{}      // of one value: a caller has found that the lease has ended
	ended  chan struct{}      // closed when it has
	kept   error              // then: why the worker ID is not released

	mu    sync.Mutex // guards what follows, which the goroutine that renews changes alone
	lease *lease     // nil while there is none
	cause error      // of the last request; nil: it succeeded
}

// Generator leases a worker ID of a name, within Options.Timeout. Then it waits for the first
// instant whose IDs no earlier holder may have made, as long as ctx allows. That is at once, as a
// rule; after the database failed over to a replica that may lack leases it takes up to the name's hold
// and 10 s.
//
// Errors: *Error, with CodeUnknown for a name that does not exist; ErrTimeout, with the cause, such
// as that no worker ID is free; ErrNoLease for a clock that is outside of the lease and more than
// 5 s from that of the database; ErrClosed; the context's.
func (c *Client) Generator(ctx context.Context, name string) (*Generator, error) {
	return c.newGenerator(ctx, name, idgen.SystemClock())
}

func (c *Client) newGenerator(ctx context.Context, name string, clock idgen.Clock) (*Generator, error) {
	l, err := c.acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	gen, err := idgen.New(idgen.Snowflakes(l.Layout, clock))
	if err != nil {
		return nil, fmt.Errorf("shardid: %w", err)
	}
	base, cancel := context.WithCancel(c.base)
	g := &Generator{gen: gen, client: c, name: name, layout: l.Layout, cancel: cancel,
		hurry: make(chan struct{}, 1), ended: make(chan struct{})}
	g.begin(l)
	if !c.start(func() { g.keep(base, l.renew()) }) {
		g.release()
		return nil, errors.Join(ErrClosed, g.kept)
	}
	if err := g.awaitTime(ctx, l); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// awaitTime waits until the clock is in the time of the first lease, or of one that follows.
func (g *Generator) awaitTime(ctx context.Context, l lease) error {
	longest := time.Duration(max(l.After-l.Now, 0))*time.Millisecond + clocksApart
	for {
		err := g.gen.Ready()
		var r *idgen.RefusalError
		isToCome := errors.As(err, &r) && (errors.Is(err, idgen.ErrTooEarly) && r.Wait <= longest ||
			errors.Is(err, idgen.ErrNoLease) && r.Bound <= l.After) // it is being renewed up to its time
		if err == nil || !isToCome {
			return g.explain(err)
		}
		select {
		case <-time.After(min(max(r.Wait, time.Millisecond), 50*time.Millisecond)):
		case <-ctx.Done():
			return fmt.Errorf("shardid: while the time of a worker ID was waited for: %w", ctx.Err())
		}
	}
}

// Next is one ID. At the most that the layout has in a millisecond it waits for the next, for
// Options.Timeout at most. Errors: ErrNoLease, ErrClockBack, ErrTimeout, ErrClosed; that of a name
// with shard bits, for which NextFor is.
func (g *Generator) Next() (int64, error) {
	if g.layout.ShardBits > 0 {
		return 0, fmt.Errorf("shardid: ask with NextFor: the last %d bits of the IDs of the name %q are those of a "+
			"shard key", g.layout.ShardBits, g.name)
	}
	return g.next()
}

// NextFor is one ID of a name with shard bits, which ends in those of key: id % n == key % n for each
// n that is a power of two up to 2^bits. Errors: those of Next, and that of a name without shard bits.
// [idtext.ShardKey] is the key of a text.
func (g *Generator) NextFor(key uint64) (int64, error) {
	bits := g.layout.ShardBits
	if bits == 0 {
		return 0, fmt.Errorf("shardid: ask with Next: the name %q has no shard bits", g.name)
	}
	id, err := g.next()
	if err != nil {
		return 0, err
	}
	return id<<bits | int64(key&(1<<bits-1)), nil
}

// next is one ID, without shard bits.
func (g *Generator) next() (int64, error) {
	if id, got, _, _ := g.gen.Take(1); got == 1 {
		return id, nil
	}
	ids, err := g.take(1)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// Take is n IDs, 1 to MaxTake, which rise, or an error as of Next. What it has when it fails is
// lost. With few bits of sequence many IDs take longer than Options.Timeout.
func (g *Generator) Take(n int) ([]int64, error) {
	if n < 1 || n > MaxTake {
		return nil, fmt.Errorf("shardid: %d IDs: ask for 1 to %d", n, MaxTake)
	}
	if g.layout.ShardBits > 0 {
		_, err := g.Next()
		return nil, err
	}
	return g.take(n)
}

// take is Take, without shard bits.
func (g *Generator) take(n int) ([]int64, error) {
	ids, err := g.gen.TakeAll(context.Background(), n, make([]int64, 0, n), g.patience)
	if err != nil {
		return nil, g.explain(err)
	}
	return ids, nil
}

// patience bounds the wait for the next millisecond.
func (g *Generator) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, g.client.opts.Timeout,
		fmt.Errorf("%w: more are asked for than %d in a millisecond", ErrTimeout, g.layout.Sequences()))
}

// explain is the error of a caller, for one of gen.
func (g *Generator) explain(err error) error {
	var r *idgen.RefusalError
	switch {
	case !errors.As(err, &r):
		return err // why there is no lease, or nil
	case errors.Is(err, idgen.ErrClockBack), r.Now < g.layout.Epoch:
		return fmt.Errorf("%w: the name %q: %w", ErrClockBack, g.name, err)
	}
	if errors.Is(err, idgen.ErrNoLease) {
		select {
		case g.hurry <- struct{}{}:
		default:
		}
	}
	err = fmt.Errorf("%w: the name %q: %w", ErrNoLease, g.name, err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause != nil {
		return fmt.Errorf("%w: %w", err, g.cause)
	}
	return err
}

// WorkerID is that of the present lease; the next lease may have another one. It is -1 while a
// lease that was lost is not replaced yet, and after Close.
func (g *Generator) WorkerID() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lease == nil {
		return -1
	}
	return int(g.lease.WorkerID)
}

// Close issues nothing more and releases the worker ID, within Options.Timeout. An error says that
// it stays leased for a while. It may be called twice.
func (g *Generator) Close() error {
	g.cancel()
	<-g.ended
	return g.kept
}

// keep renews the lease until the context ends, replaces it when it is lost, and releases it at last. Timers stand
// still while a machine is suspended, so who finds that the lease has ended has it renewed within firstRetry.
func (g *Generator) keep(ctx context.Context, every time.Duration) {
	defer close(g.ended)
	defer g.release()
	wait, retry := every, time.Duration(0)
	for {
		hurry := g.hurry
		if wait <= firstRetry || retry > 0 {
			hurry = nil
		}
		select {
		case <-time.After(wait):
		case <-hurry:
			wait = firstRetry
			continue
		case <-ctx.Done():
			return
		}
		if err := g.renewLease(ctx); err != nil {
			retry = min(max(2*retry, firstRetry), lastRetry)
			wait = min(retry, every/4)
			continue
		}
		every = g.lease.renew()
		wait, retry = every, 0
	}
}

// release ends the lease for good, and gives the worker ID back.
func (g *Generator) release() {
	l := g.lease
	g.end(ErrClosed, ErrClosed)
	if l != nil {
		// Where no ID was issued, After may still be above Until.
		used := min(max(g.gen.LastIssued(), l.After), l.Until)
		g.kept = g.client.release(context.Background(), *l, max(used, 1))
	}
	if g.client.base.Err() != nil {
		g.client.mu.Lock()
		defer g.client.mu.Unlock()
		g.client.kept = append(g.client.kept, g.kept)
	}
}

// renewLease renews the lease, or leases anew when there is none.
func (g *Generator) renewLease(ctx context.Context) error {
	if g.lease != nil {
		l, err := g.client.renew(ctx, *g.lease)
		if err == nil {
			l.Until = max(l.Until, g.lease.Until) // what was granted is not taken back
			g.setLease(&l, nil)
			g.gen.Extend(l.Until, math.MaxInt64)
			return nil
		}
		if !isLost(err) {
			g.setLease(g.lease, err)
			return err
		}
		g.loseLease(err)
	}
	l, err := g.client.acquire(ctx, g.name)
	if err == nil && l.Layout != g.layout {
		err = errors.Join(fmt.Errorf("shardid: the name has another layout now, %+v: it is not used", l.Layout),
			g.client.release(ctx, l, max(min(l.After, l.Until), 1)))
	}
	if err != nil {
		g.loseLease(err)
		return err
	}
	g.begin(l)
	return nil
}

// begin takes up a lease. Its IDs are later than all before. Only the time of an ID ends a lease,
// whatever the clocks do.
func (g *Generator) begin(l lease) {
	g.gen.Begin(int(l.WorkerID), l.After)
	g.gen.Extend(l.Until, math.MaxInt64)
	g.setLease(&l, nil)
}

// loseLease ends the lease for a cause, if there is one, and has callers told the latest cause.
func (g *Generator) loseLease(cause error) {
	g.end(fmt.Errorf("%w: the name %q: %w", ErrNoLease, g.name, cause), cause)
}

// end ends the lease: no ID of it is issued once this returns.
func (g *Generator) end(reason, cause error) {
	g.gen.End(reason)
	g.setLease(nil, cause)
}

func (g *Generator) setLease(l *lease, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lease, g.cause = l, cause
}
