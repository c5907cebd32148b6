package load

import (
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the result of a run. Unless it says otherwise, it is about the time that
// was measured, without the warm-up.
type Report struct {
	URL, Mode string
	// Requests were answered as they should be; IDs came with them.
	Requests, IDs int64
	// Errors are refusals and failed connections by kind: "connect", "timeout",
	// "closed", "malformed", or the status with the code, as in "503 code -4".
	Errors map[string]int64
	// Breaches are answers that must never be, by what was wrong, warm-up included.
	Breaches map[string]int64
	// FirstError is the first of the errors, else of the breaches; nil without any.
	FirstError error
	// Duration is from the end of the warm-up to the last answer, at least as long
	// as was asked for unless Interrupted.
	Duration    time.Duration
	Interrupted bool
	// Latency of Requests, and of what Unsent counts.
	Latency Latency
	// Rate is the rate that was asked for, requests a second, 0 for a closed loop.
	Rate float64
	// Unsent requests were due and not sent when the time was up. Their latency is
	// how long they had waited by then.
	Unsent int64
	// Duplicates among the Compared IDs, warm-up included; NotCompared came
	// beyond Options.Compare.
	Duplicates            Duplicates
	Compared, NotCompared int64
}

// Latency is a distribution, from when a request was sent (in a closed loop) or due
// (at a rate) to the end of its answer. It is zero without any.
type Latency struct {
	P50, P90, P99, P999, Max, Mean time.Duration
}

// RequestsPerSecond is the rate of good answers.
func (r *Report) RequestsPerSecond() float64 { return r.perSecond(r.Requests) }

// IDsPerSecond is the rate of IDs in good answers.
func (r *Report) IDsPerSecond() float64 { return r.perSecond(r.IDs) }

// AchievedRate is the rate of requests whatever came of them.
func (r *Report) AchievedRate() float64 {
	return r.perSecond(r.Requests + sum(r.Errors) + sum(r.Breaches))
}

func (r *Report) perSecond(n int64) float64 {
	if r.Duration <= 0 {
		return 0
	}
	return float64(n) / r.Duration.Seconds()
}

// Failed are the errors and breaches together.
func (r *Report) Failed() int64 { return sum(r.Errors) + sum(r.Breaches) }

func sum(counts map[string]int64) (n int64) {
	for v := range maps.Values(counts) {
		n += v
	}
	return n
}

// report adds up what the workers have; they must have ended.
func (r *run) report() *Report {
	var errs, breaches failures
	latency := newHistogram()
	out := &Report{URL: r.opts.URL, Mode: r.mode(), Rate: r.opts.Rate, Interrupted: r.interrupted}
	last := max(r.ended, r.from)
	var blocks [][]int64
	for _, w := range r.workers {
		out.Requests += w.requests
		out.IDs += w.ids
		out.Unsent += w.unsent
		out.Compared += w.ledger.kept
		out.NotCompared += w.ledger.left
		last = max(last, w.last)
		latency.Merge(w.latency)
		errs.merge(w.errors)
		breaches.merge(w.breaches)
		blocks = append(blocks, w.ledger.blocks()...)
	}
	out.Unsent += r.omitLeft(latency)
	out.Duration = time.Duration(last - r.from)
	out.Latency = latencyOf(latency)
	out.Errors, out.Breaches = errs.byName(), breaches.byName()
	if out.FirstError = errs.first; out.FirstError == nil {
		out.FirstError = breaches.first
	}
	out.Duplicates = findDuplicates(blocks)
	return out
}

// mode is what the report calls it.
func (r *run) mode() string {
	if r.opts.Raw != "" {
		return "raw"
	}
	return r.opts.Mode
}

// omitLeft records the latencies of what was due and never taken from the pacer, and
// gives how many that were. Many are recorded in groups.
func (r *run) omitLeft(latency *hdrhistogram.Histogram) int64 {
	const groups = 10_000
	interval := float64(time.Second) / r.opts.Rate
	group := max(1, r.unsent/groups)
	for done := int64(0); done < r.unsent; done += group {
		at := r.first + int64(float64(done)*interval)
		_ = latency.RecordValues(min(max(r.ended-at, 0), maxLatency), min(group, r.unsent-done)) // it fits
	}
	return r.unsent
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	q := func(p float64) time.Duration { return time.Duration(h.ValueAtQuantile(p)) }
	return Latency{P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), Max: time.Duration(h.Max()), Mean: time.Duration(h.Mean())}
}
