package load

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histograms keep three digits of latencies of 1 µs and more, up to an hour; a
// longer one counts as an hour.
const (
	minLatency = int64(time.Microsecond)
	maxLatency = int64(time.Hour)
	digits     = 3
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
	return &Load{opts: opts, target: t}, nil
}

// Run puts the server under load and reports. When ctx ends early, the report is
// about the time until then. It fails, with one line that says what to do, when the
// server is not there or not the one that was meant; a server that refuses for now
// (503) is tried all the same.
func (l *Load) Run(ctx context.Context) (*Report, error) {
	r := l.newRun()
	if err := r.probe(ctx); err != nil {
		return nil, err
	}
	if err := r.execute(ctx); err != nil {
		return nil, err
	}
	return r.report(), nil
}

// run is one execution of a Load.
type run struct {
	*Load
	clock   clock
	workers []*worker

	from, ended   int64 // the time that is measured, by the clock
	interrupted   bool
	first, unsent int64 // what was due when the time was up, and nobody took
}

func (l *Load) newRun() *run {
	r := &run{Load: l, clock: clock{time.Now()}, workers: make([]*worker, l.opts.Concurrency)}
	kept := &allowance{}
	kept.left.Store(l.opts.Compare)
	for i := range r.workers {
		r.workers[i] = &worker{
			conn:    connection{target: l.target, clock: r.clock, timeout: l.opts.Timeout},
			clock:   r.clock,
			turn:    i * len(l.target.requests) / len(r.workers),
			latency: newHistogram(),
			ledger:  ledger{allowed: kept},
		}
	}
	return r
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(minLatency, maxLatency, digits)
}

// probe makes one request before all others. Its IDs count as those of the warm-up,
// its error is the run's unless it may pass.
func (r *run) probe(ctx context.Context) error {
	w := r.workers[0]
	defer w.conn.shut()
	err := w.conn.open(ctx)
	if err == nil {
		_, err = w.request(ctx)
	}
	w.pause = 0
	refused, ok := errors.AsType[*refusal](err)
	if err == nil || ok && refused.status == http.StatusServiceUnavailable {
		return nil
	}
	return r.advise(err)
}

// execute runs the workers until the time is up or ctx ends, and waits for them.
func (r *run) execute(ctx context.Context) error {
	begun := r.clock.now()
	r.from = begun + int64(r.opts.Warmup)
	end := r.from + int64(r.opts.Duration)
	for _, w := range r.workers {
		w.from = r.from
	}
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	if err := r.start(working, &wg, begun, end); err != nil {
		return err
	}
	r.watch(ctx, begun, end)
	cancel()
	r.ended, r.interrupted = r.clock.now(), ctx.Err() != nil
	wg.Wait()
	return nil
}

// start starts the workers, and the pacer when there is a rate.
func (r *run) start(ctx context.Context, wg *sync.WaitGroup, begun, end int64) error {
	if r.opts.Rate == 0 {
		for _, w := range r.workers {
			wg.Go(func() { w.closedLoop(ctx) })
		}
		return nil
	}
	a, err := newAlarm()
	if err != nil {
		return err
	}
	p := &pacer{clock: r.clock, interval: float64(time.Second) / r.opts.Rate,
		due: make(chan int64, len(r.workers)), alarm: a}
	wg.Go(func() {
		defer a.close()
		r.first, r.unsent = p.run(ctx, begun, r.from, end)
	})
	for _, w := range r.workers {
		wg.Go(func() { w.paced(ctx, p.due) })
	}
	return nil
}

// Progress is how a run goes.
type Progress struct {
	Elapsed time.Duration // since the warm-up began
	// Since the warm-up began: answers without an error, the IDs in them, and
	// everything else that came of requests and connections.
	Requests, IDs, Failed int64
	WarmingUp             bool
}

// watch tells of the progress once a second until the end, or that of ctx.
func (r *run) watch(ctx context.Context, begun, end int64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	up := time.NewTimer(time.Duration(end - begun))
	defer up.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-up.C:
			return
		case <-tick.C:
			if r.opts.Progress != nil {
				r.opts.Progress(r.progress(begun))
			}
		}
	}
}

func (r *run) progress(begun int64) Progress {
	now := r.clock.now()
	p := Progress{Elapsed: time.Duration(now - begun), WarmingUp: now < r.from}
	for _, w := range r.workers {
		p.Requests += w.live.requests.Load()
		p.IDs += w.live.ids.Load()
		p.Failed += w.live.failed.Load()
	}
	return p
}
