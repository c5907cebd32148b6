// Package loadgen puts an ID service under load over HTTP/1.1 or RESP and checks what comes
// back: how fast, how late, with which errors, and whether any ID came twice.
//
// It knows nothing of the service's inside; any server that answers like it can be
// measured, and with Options.Raw any path of any server.
//
// In a closed loop each connection sends its next request when the answer to the
// last one came, so a server that stalls is asked less and looks better than it is.
// At a constant rate it does not: requests are due by a schedule that nothing
// delays, and latencies count from when a request was due, whether or not a
// connection was free to send it then.
package loadgen

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Load is a run that can be made.
type Load struct {
	opts   Options
	target *target
}

// New checks the options and connects to nothing. The error is
// model.ErrInvalidArgument.
func New(opts Options) (*Load, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	t, err := newTarget(opts)
	if err != nil {
		return nil, err
	}
	if opts.Mode == ModeSequence {
		opts.Compare = 0
	}
	return &Load{opts: opts, target: t}, nil
}

// Run puts the server under load and reports. When ctx ends early, the report is
// about the time until then. It fails, with one line that says what to do, when the
// server is not there or not the one that was meant; a server that refuses for now
// (503, or its codes) is tried all the same.
func (l *Load) Run(ctx context.Context) (*Report, error) {
	r, err := l.execute(ctx)
	if err != nil {
		return nil, err
	}
	return r.report(), nil
}

// clock counts nanoseconds since its base, monotonically.
type clock struct{ base time.Time }

func (c clock) now() int64 { return int64(time.Since(c.base)) }

// run is one execution of a Load.
type run struct {
	*Load
	clock
	account
	begun, from, end int64 // of the warm-up, of what is measured, and of both, by the clock
	ended            int64 // when the load stopped: at end, or earlier when it was interrupted
	interrupted      bool
}

// execute makes the first request, then runs the workers until the time is up or ctx
// ends, and waits for them.
func (l *Load) execute(ctx context.Context) (*run, error) {
	r := &run{Load: l, clock: clock{time.Now()}, account: newAccount(l.opts.Compare)}
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := make([]*worker, l.opts.Concurrency)
	for i := range workers {
		workers[i] = &worker{run: r, turn: i * len(l.target.requests) / len(workers)}
	}
	if err := r.probe(ctx, workers[0]); err != nil {
		return nil, err
	}
	r.begun = r.now()
	r.from = r.begun + int64(l.opts.Warmup)
	r.end = r.from + int64(l.opts.Duration)
	var wg sync.WaitGroup
	if l.opts.Rate == 0 {
		for _, w := range workers {
			wg.Go(func() { w.closedLoop(working) })
		}
	} else {
		timer, err := newTimer()
		if err != nil {
			return nil, err
		}
		due := make(chan int64, len(workers))
		wg.Go(func() {
			defer timer.close()
			r.pace(working, timer, due)
		})
		for _, w := range workers {
			wg.Go(func() { w.paced(working, due) })
		}
	}
	r.watch(ctx)
	r.ended, r.interrupted = r.now(), ctx.Err() != nil
	cancel()
	wg.Wait()
	return r, nil
}

// probe makes one request before all others. Its IDs count as those of the warm-up,
// its error is the run's unless it may pass.
func (r *run) probe(ctx context.Context, w *worker) error {
	defer w.hangUp()
	var got outcome
	err := w.connect(ctx)
	if err == nil {
		got = w.request(ctx, r.now())
		err = errors.Join(got.errs...)
	}
	w.pause = 0
	r.seen.add(got.ids)
	if refused, ok := errors.AsType[*refusal](err); err == nil || ok && refused.mayPass() {
		return nil
	}
	return r.advise(cmp.Or(append(got.errs, err)...))
}

// Progress is how a run goes.
type Progress struct {
	Elapsed time.Duration // since the warm-up began
	// Since the warm-up began: answers without an error, the IDs in them, and
	// everything else that came of requests and connections.
	Requests, IDs, Failed int64
	WarmingUp             bool
}

// watch reports the progress once a second until the end, or that of ctx.
func (r *run) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	up := time.NewTimer(time.Duration(r.end - r.now()))
	defer up.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-up.C:
			return
		case <-tick.C:
			if r.opts.Progress == nil {
				continue
			}
			r.mu.Lock()
			p := r.progress
			r.mu.Unlock()
			now := r.now()
			p.Elapsed, p.WarmingUp = time.Duration(now-r.begun), now < r.from
			r.opts.Progress(p)
		}
	}
}

// longestWait bounds how late the pacer notices the end of a run, ns.
const longestWait = int64(100 * time.Millisecond)

// pace sends the times at which requests are due to due, from begun to end or until
// ctx ends, and closes it. What the warm-up was late with is dropped. Of the rest no
// time is skipped: those that no connection was free for are sent late, as the time
// they were due, and those that remain at the end are accounted for as unsent.
func (r *run) pace(ctx context.Context, timer *timer, due chan<- int64) {
	defer close(due)
	warmUp, cancel := context.WithDeadline(ctx, r.base.Add(time.Duration(r.from)))
	defer cancel()
	r.paceUntil(warmUp, timer, due, r.begun, r.from)
	at := r.paceUntil(ctx, timer, due, r.from, r.end)
	now := min(r.now(), r.end-1)
	if at > now {
		return
	}
	interval := r.interval()
	left := int64(float64(now-at)/interval) + 1
	const groups = 10_000 // many are recorded together
	group := max(1, left/groups)
	for done := int64(0); done < left; done += group {
		r.omit(at+int64(float64(done)*interval), now, min(group, left-done))
	}
}

// interval is the time from one pipeline, over HTTP a request, that is due to the next, ns.
func (r *run) interval() float64 {
	return float64(time.Second) * float64(r.target.pipeline) / r.opts.Rate
}

// paceUntil sends the times that are due in [from, end). It returns the first that it
// could not send before ctx ended, else one that is not before end.
func (r *run) paceUntil(ctx context.Context, timer *timer, due chan<- int64, from, end int64) int64 {
	interval := r.interval()
	for n := 0; ; n++ {
		at := from + int64(float64(n)*interval)
		if at >= end {
			return at
		}
		for now := r.now(); now < at; now = r.now() {
			if ctx.Err() != nil {
				return at
			}
			timer.wait(at - now)
		}
		select {
		case due <- at:
		case <-ctx.Done():
			return at
		}
	}
}
