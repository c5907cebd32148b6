// Package hold keeps IDs ahead of those who take them. The buffers of the client, the lists of the
// queue mode and the tags of the segment mode are each a Pool with another Source.
//
// A pool holds runs of IDs. The beginning of the first run is open: callers take from this part with
// one atomic add and without a lock. Everything else happens under the mutex of the pool, which a
// caller meets when the open part is used up: it takes its ID from the runs, looks whether the source
// should be called, and opens the next part. A part ends where a call becomes due, and is at most an
// eighth of what is held, so that a change of demand is seen in time without a timer. No part is open
// while somebody waits, so nobody overtakes.
//
// A pool holds as many IDs as were taken within the last Options.Lasts. So after some time of demand
// what is held lasts for that time, and a burst leaves no more than its own number of IDs.
package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Run is First, First+Stride, …, Count of them.
type Run struct{ First, Count, Stride int64 }

// Source is where a pool gets its IDs.
type Source interface {
	// More returns about n IDs in the order in which they are to be issued: more where segments are
	// longer, fewer where there are fewer, and none without an error where it cannot say why. A pool
	// makes one call at a time; ctx ends with Close. After an error nothing that the call may have
	// taken is used.
	More(ctx context.Context, n int64) ([]Run, error)
}

// Options of a Pool. Refuse, the pauses and the bounds may be 0.
type Options struct {
	Source      Source
	Lasts       time.Duration // for how long what is held should last at the present rate
	Low         float64       // the source is called when less than this share of that is held
	Least, Most int64         // bound what is held beyond what those who wait need
	Timeout     time.Duration // how long a caller waits
	Empty       error         // what a caller gets then, with the reason why the source gave nothing
	// FirstPause and LastPause bound the pause after a call that gave nothing. It doubles each time,
	// and half of it is random, so that replicas do not call in step.
	FirstPause, LastPause time.Duration
	// Final says whether an error of the source is one that waiting would not mend. All who wait get
	// it at once, and so do all who come within the time of Refuse, for whom the source is not called.
	Final  func(error) bool
	Refuse time.Duration
	Go     func(func()) bool // runs a function on another goroutine; false: Close is about to be called
}

// Counts are what a pool did and has.
type Counts struct {
	Issued  int64 // IDs given to callers since New
	Dropped int64 // IDs given up since New
	Held    int64 // IDs that can be issued now
	Next    int64 // the first of them; nothing without one
	Waits   int64 // calls that had to wait, but for those before the pool Began
	Waiting int   // callers that wait now
}

// Pool holds IDs and issues each once. Safe for concurrent use.
type Pool struct {
	current atomic.Pointer[part] // the open part; never nil
	nothing part                 // what is open when no IDs are
	opts    Options
	ctx     context.Context // of the calls of the source, until Close
	end     context.CancelFunc
	wake    chan struct{} // ends a pause
	began   atomic.Bool   // see Began

	mu      sync.Mutex // guards current against changes, Options.Least and Most, and what follows
	runs    []Run      // held beside the open part, in order
	behind  int64      // IDs in runs
	counts  Counts     // but for Held and Waiting, and without the open part
	waiters []*waiter
	asking  bool            // a goroutine calls the source, or pauses after a call
	retry   bool            // the source is to be called once, whatever is held
	lastErr error           // why the last call of the source gave nothing, if so; never nil
	refused error           // what is final, for the time of Options.Refuse
	closed  error           // of Close
	calling bool            // the source is being called
	keeps   []func(Run) Run // of Drop meanwhile
	demand  demand
}

// demand is how many IDs were issued within the last Options.Lasts, which is a window that slides over
// two of that length.
type demand struct {
	within int64
	since  time.Time // where the second window begins
	base   int64     // IDs issued until then
	before float64   // IDs issued in the first window
}

// follow notes that so many IDs were issued until now.
func (d *demand) follow(now time.Time, issued int64, lasts time.Duration) {
	passed := float64(now.Sub(d.since)) / float64(lasts)
	if passed >= 1 {
		d.before, d.base, d.since = float64(issued-d.base)/passed, issued, now
		passed = 0
	}
	d.within = int64(d.before*(1-passed)) + issued - d.base
}

// part is some of a run, and how many of its IDs are taken: who moves that counter owns the IDs that
// it passes. The counter has a cache line (64 bytes) of its own, so that a core which moved it reads
// the rest without waiting for the next one.
type part struct {
	taken atomic.Int64 // beyond Count when more was asked for than there is
	_     [7]int64
	Run
	_ [5]int64
}

// waiter is a caller that waits for n IDs, which are appended to ids.
type waiter struct {
	n    int
	ids  []int64
	err  error
	done chan struct{}
}

// errNothing is why nothing is there when the source has not said why.
var errNothing = errors.New("the source has not given enough yet")

// New makes a pool that holds nothing. It is to be closed.
func New(opts Options) *Pool {
	p := &Pool{opts: opts, wake: make(chan struct{}, 1), lastErr: errNothing}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.current.Store(&p.nothing)
	return p
}

// Began says whether the pool has held IDs since New, or since Drop took all of them. It takes no lock.
func (p *Pool) Began() bool { return p.began.Load() }

// Next is Take for one ID.
func (p *Pool) Next(ctx context.Context) (int64, error) {
	b := p.current.Load()
	r := b.Run // read before the add, which holds up what follows it
	if n := b.taken.Add(1); n <= r.Count {
		return r.First + (n-1)*r.Stride, nil
	}
	return p.nextLocked(ctx)
}

// nextLocked is takeLocked for one ID. It is a function of its own, so that the way without a lock has no frame.
func (p *Pool) nextLocked(ctx context.Context) (int64, error) {
	ids, err := p.takeLocked(ctx, 1, nil)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// Take appends n IDs, 1 or more, to dst: all of them or, with an error, none. They are in the order
// of the source. Where too few are held it waits behind those who came before.
//
// Errors: that of Close; a final one of the source; Options.Empty with the last one of the source;
// the cause of ctx.
func (p *Pool) Take(ctx context.Context, n int, dst []int64) ([]int64, error) {
	b := p.current.Load()
	for at := b.taken.Load(); at+int64(n) <= b.Count; at = b.taken.Load() {
		if b.taken.CompareAndSwap(at, at+int64(n)) {
			return appendRun(dst, Run{b.First + at*b.Stride, int64(n), b.Stride}), nil
		}
	}
	return p.takeLocked(ctx, n, dst)
}

func appendRun(dst []int64, r Run) []int64 {
	for i := range r.Count {
		dst = append(dst, r.First+i*r.Stride)
	}
	return dst
}

// takeLocked takes n IDs from all that is held, or waits.
func (p *Pool) takeLocked(ctx context.Context, n int, dst []int64) ([]int64, error) {
	p.mu.Lock()
	p.closePart()
	switch enough := p.behind >= int64(n); {
	case p.closed != nil:
		defer p.mu.Unlock()
		return dst, p.closed
	case enough && len(p.waiters) == 0:
		defer p.mu.Unlock()
		dst = p.takeRuns(n, dst)
		p.startAsking()
		p.openPart()
		return dst, nil
	case p.refused != nil && !enough:
		defer p.mu.Unlock()
		p.openPart()
		return dst, p.refused
	}
	w := &waiter{n: n, ids: dst, done: make(chan struct{})}
	p.waiters = append(p.waiters, w)
	if p.began.Load() {
		p.counts.Waits++
	}
	p.startAsking()
	p.mu.Unlock()

	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Timeout, p.opts.Empty)
	defer cancel()
	select {
	case <-w.done:
		return w.ids, w.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiters, w)
	if i < 0 { // served meanwhile
		return w.ids, w.err
	}
	p.waiters = slices.Delete(p.waiters, i, i+1)
	p.serveWaiters(nil) // the next one may need less
	if cause := context.Cause(ctx); !errors.Is(cause, p.opts.Empty) {
		return dst, cause
	}
	return dst, fmt.Errorf("%w: %w", p.opts.Empty, p.lastErr)
}

// closePart puts what is left of the open part back in front of the runs. Callers hold mu.
func (p *Pool) closePart() {
	b := p.current.Swap(&p.nothing)
	used := min(b.taken.Swap(b.Count), b.Count)
	p.counts.Issued += used
	if left := b.Count - used; left > 0 {
		p.runs = slices.Insert(p.runs, 0, Run{b.First + used*b.Stride, left, b.Stride})
		p.behind += left
	}
}

// openPart opens some of the first run, unless somebody waits. Callers hold mu.
func (p *Pool) openPart() {
	if len(p.waiters) > 0 || p.behind == 0 || p.current.Load() != &p.nothing {
		return
	}
	n := max(p.behind/8, 64)
	if _, low := p.goal(); p.behind >= low {
		n = min(n, p.behind-low)
	}
	if n > 0 { // else the next caller has the source called
		p.current.Store(&part{Run: p.cutRun(n)})
	}
}

// cutRun takes the first run, or n IDs of it. Callers hold mu.
func (p *Pool) cutRun(n int64) Run {
	r := &p.runs[0]
	cut := Run{r.First, min(n, r.Count), r.Stride}
	r.First, r.Count = r.First+cut.Count*r.Stride, r.Count-cut.Count
	if p.behind -= cut.Count; r.Count == 0 {
		p.runs = p.runs[1:]
	}
	return cut
}

// takeRuns takes n IDs of the runs, which have so many. Callers hold mu.
func (p *Pool) takeRuns(n int, dst []int64) []int64 {
	p.counts.Issued += int64(n)
	for left := int64(n); left > 0; {
		r := p.cutRun(left)
		dst, left = appendRun(dst, r), left-r.Count
	}
	return dst
}

// serveWaiters serves those who wait, in order. It ends at the first for whom too little is held; or,
// with an error, gives it to all of these. Callers hold mu.
func (p *Pool) serveWaiters(final error) {
	for len(p.waiters) > 0 {
		w := p.waiters[0]
		switch {
		case p.behind >= int64(w.n):
			w.ids = p.takeRuns(w.n, w.ids)
		case final != nil:
			w.err = final
		default:
			return
		}
		close(w.done)
		p.waiters = p.waiters[1:]
	}
	p.openPart()
}

// goal is how many IDs should be held, and below how many the source is called. Callers hold mu.
func (p *Pool) goal() (goal, low int64) {
	goal = min(max(p.demand.within, p.opts.Least), p.opts.Most)
	return goal, int64(float64(goal) * p.opts.Low)
}

// wanted is how many IDs the source should be asked for now, 0 for none. Callers hold mu.
func (p *Pool) wanted() int64 {
	c := p.countLocked()
	p.demand.follow(time.Now(), c.Issued, p.opts.Lasts)
	spare := c.Held
	for _, w := range p.waiters {
		spare -= int64(w.n)
	}
	goal, low := p.goal()
	if p.closed != nil || spare >= low && !p.retry {
		return 0
	}
	return max(1, goal-spare)
}

// startAsking has the source called if that is due. Callers hold mu.
func (p *Pool) startAsking() {
	if !p.asking && p.wanted() > 0 {
		p.asking = p.opts.Go(p.askSource)
	}
}

// askSource calls the source until enough is held, or an error is final.
func (p *Pool) askSource() {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.asking = false }()
	pause := time.Duration(0)
	for n := p.wanted(); n > 0; n = p.wanted() {
		p.calling, p.keeps, p.retry = true, nil, false
		p.mu.Unlock()
		runs, err := p.opts.Source.More(p.ctx, n)
		p.mu.Lock()
		p.calling = false
		if p.lastErr = cmp.Or(err, errNothing); err != nil && p.opts.Final(err) {
			p.serveWaiters(err)
			if p.opts.Refuse > 0 {
				p.refused = err
				p.sleepUnlocked(p.opts.Refuse)
				p.refused = nil
			}
			if len(p.waiters) == 0 && !p.retry { // who came after Wake waits
				return
			}
			continue
		}
		if err != nil || len(runs) == 0 {
			pause = min(max(2*pause, p.opts.FirstPause), p.opts.LastPause)
			p.sleepUnlocked(pause/2 + rand.N(pause/2+1))
			continue
		}
		pause = 0
		for _, keep := range p.keeps {
			runs = p.keepRuns(runs, keep)
		}
		if len(runs) > 0 {
			p.began.Store(true)
		}
		if p.setRuns(append(p.runs, runs...)); p.closed != nil {
			p.dropRuns()
		}
		p.serveWaiters(nil)
	}
}

// setRuns changes what is held beside the open part. Callers hold mu.
func (p *Pool) setRuns(runs []Run) {
	p.runs, p.behind = runs, 0
	for _, r := range runs {
		p.behind += r.Count
	}
}

// dropRuns gives up what is held. Callers hold mu, and no part is open.
func (p *Pool) dropRuns() {
	p.counts.Dropped += p.behind
	p.setRuns(nil)
}

// sleepUnlocked waits until Wake, Retry, Close or the end of a time. Callers hold mu.
func (p *Pool) sleepUnlocked(d time.Duration) {
	p.mu.Unlock()
	defer p.mu.Lock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.wake:
	case <-p.ctx.Done():
	}
}

// Wake ends a pause, and what Options.Refuse began: what a call could not give may be there now.
func (p *Pool) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused = nil; p.asking {
		p.endSleep()
	}
}

func (p *Pool) endSleep() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Retry has the source called now, without a pause and also where enough is held: it works again, or
// is to be tried.
func (p *Pool) Retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retry = true
	p.startAsking()
	p.endSleep()
}

// Bound sets Options.Least and Options.Most. It counts when the source is called next.
func (p *Pool) Bound(least, most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opts.Least, p.opts.Most = least, most
}

// Drop gives up IDs that are held, or that a call of the source is about to bring: keep is shown what
// is left of each run and returns what stays of it, with a Count of 0 for nothing.
func (p *Pool) Drop(keep func(Run) Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closePart()
	p.setRuns(p.keepRuns(p.runs, keep))
	p.began.Store(p.behind > 0)
	p.openPart()
	if p.calling {
		p.keeps = append(p.keeps, keep)
	}
}

// keepRuns is what stays of runs. Callers hold mu.
func (p *Pool) keepRuns(runs []Run, keep func(Run) Run) (kept []Run) {
	for _, r := range runs {
		stays := keep(r)
		p.counts.Dropped += r.Count - stays.Count
		if stays.Count > 0 {
			kept = append(kept, stays)
		}
	}
	return kept
}

// Close ends the pool: who waits and who comes gets err, which is not nil. What is held is given up.
func (p *Pool) Close(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end() // under mu, or the source could be called once more that has heard of it
	p.closePart()
	p.dropRuns()
	p.closed = err
	p.serveWaiters(err)
}

// Counts are those of this moment.
func (p *Pool) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.countLocked()
}

func (p *Pool) countLocked() Counts {
	c, open := p.counts, p.current.Load()
	used := min(open.taken.Load(), open.Count)
	c.Issued, c.Held, c.Waiting = c.Issued+used, p.behind+open.Count-used, len(p.waiters)
	switch {
	case used < open.Count:
		c.Next = open.First + used*open.Stride
	case len(p.runs) > 0:
		c.Next = p.runs[0].First
	}
	return c
}
