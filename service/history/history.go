// Package history remembers what happened in the last minutes, for the charts of the
// console: no monitoring is needed to see them. It reads the counters every few
// seconds into a ring, so its memory is bounded and nobody who counts knows of it.
package history

import (
	"context"
	"math"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/latency"
)

const (
	// Every is the pause between two samples.
	Every = 5 * time.Second
	// Samples is how many are kept: 15 minutes.
	Samples = 180
	// smooth is how many samples the present rate of an app is the average of.
	smooth = 3
)

// Unknown is a counter that cannot be read at present.
const Unknown int64 = -1

// Options are what a History is made of. The names are those of the series, in the
// order in which Read has their values.
type Options struct {
	Rates   []string // counters that are shown per second
	Counts  []string // counters of which is shown how much they rose in a period
	Timings []string // histograms, shown as NAME.p50Ms and NAME.p99Ms
	// Read reads all counters. It must not block for long.
	Read func() Reading
}

// Reading is where the counters stood at one instant.
type Reading struct {
	Rates, Counts []int64 // in the order of the names; Unknown is possible
	Timings       []latency.Reading
	Apps          [model.Apps]int64 // IDs issued of each app; Unknown for those that do not exist
}

// History keeps the samples. Safe for concurrent use.
type History struct {
	opts Options

	mu      sync.Mutex
	last    Reading
	lastAt  time.Time // zero before the first reading
	ring    [Samples]sample
	next    int // where in ring the next sample goes
	samples int // in ring

	ctx     context.Context // ends at Stop
	cancel  context.CancelFunc
	started bool // guarded by mu
	wg      sync.WaitGroup
}

// sample is one period. NaN is unknown.
type sample struct {
	at     int64     // its end, Unix seconds
	values []float64 // rates, counts, then two of each timing
	apps   [model.Apps]float32
}

// New starts nothing.
func New(opts Options) *History {
	h := &History{opts: opts}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Start samples until Stop. A second call, and one after Stop, does nothing.
func (h *History) Start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started && h.ctx.Err() == nil {
		h.started = true
		h.wg.Go(h.run)
	}
}

// Stop ends the sampling and waits. It may be called twice, and without Start.
func (h *History) Stop() {
	h.mu.Lock() // so that no Start adds to wg while Wait runs
	h.cancel()
	h.mu.Unlock()
	h.wg.Wait()
}

func (h *History) run() {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		h.add(h.opts.Read(), time.Now())
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// add enters what happened between the last reading and this one.
func (h *History) add(r Reading, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lastAt.IsZero() {
		h.ring[h.next] = h.since(r, now)
		h.next = (h.next + 1) % Samples
		h.samples = min(h.samples+1, Samples)
	}
	h.last, h.lastAt = r, now
}

// since is the sample of the period that ends now. Callers hold mu.
func (h *History) since(r Reading, now time.Time) sample {
	seconds := now.Sub(h.lastAt).Seconds()
	s := sample{at: now.Unix(), values: h.ring[h.next].values[:0]}
	for i, n := range r.Rates {
		s.values = append(s.values, rise(h.last.Rates[i], n)/seconds)
	}
	for i, n := range r.Counts {
		s.values = append(s.values, rise(h.last.Counts[i], n))
	}
	for i, t := range r.Timings {
		t = t.Since(h.last.Timings[i])
		s.values = append(s.values, 1000*t.Quantile(0.5), 1000*t.Quantile(0.99))
	}
	for app, n := range r.Apps {
		s.apps[app] = float32(rise(h.last.Apps[app], n) / seconds)
	}
	return s
}

// rise is how much a counter rose. One that was unknown, or fell, started anew at 0.
func rise(before, after int64) float64 {
	switch {
	case after == Unknown:
		return math.NaN()
	case before == Unknown, after < before:
		return float64(after)
	}
	return float64(after - before)
}
