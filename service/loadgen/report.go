package loadgen

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// account is what came of a run so far. Safe for concurrent use.
type account struct {
	mu       sync.Mutex
	progress Progress // warm-up included
	// The rest is about what was measured.
	requests, ids           int64 // answered without an error, and the IDs in these answers
	unsent                  int64 // requests
	last                    int64 // when the last good answer came, by the clock
	latency                 *hdrhistogram.Histogram
	errors, breaches        map[string]int64 // by kind
	firstError, firstBreach error
	seen                    ledger // warm-up included
}

// maxLatency is the longest that the histogram tells apart, ns; a longer one counts
// as this.
const maxLatency = int64(time.Hour)

func newAccount(compare int64) account {
	return account{
		latency: hdrhistogram.New(int64(time.Microsecond), maxLatency, 3),
		errors:  map[string]int64{}, breaches: map[string]int64{},
		seen: ledger{bound: compare},
	}
}

// outcome is what came of requests that were sent together.
type outcome struct {
	ids  []int64 // all that came, also with errors: they count as issued
	good int64   // requests that were answered as they should be
	errs []error // of the others
}

// settle accounts for what came at a time of requests, or a connection, that were due at a
// time. A breach is counted also in the warm-up.
func (r *run) settle(o outcome, due, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.add(o.ids)
	for _, err := range o.errs {
		r.progress.Failed++
		if b, ok := errors.AsType[breach](err); ok {
			r.breaches[string(b)]++
			r.firstBreach = cmp.Or(r.firstBreach, err)
		} else if due >= r.from {
			r.errors[kindOf(err)]++
			r.firstError = cmp.Or(r.firstError, err)
		}
	}
	ids := o.good * int64(r.target.count)
	r.progress.Requests += o.good
	r.progress.IDs += ids
	if due < r.from || o.good == 0 {
		return
	}
	r.requests += o.good
	r.ids += ids
	r.last = max(r.last, now)
	r.record(now-due, o.good)
}

// omit accounts for pipelines, over HTTP requests, that were due at a time and could not be
// sent before the end: they waited at least until now.
func (r *run) omit(due, now, pipelines int64) {
	if due < r.from {
		return
	}
	requests := pipelines * int64(r.target.pipeline)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent += requests
	r.record(now-due, requests)
}

func (a *account) record(latency, requests int64) {
	_ = a.latency.RecordValues(min(max(latency, 0), maxLatency), requests) // it fits
}

// blockIDs is how many IDs a ledger reserves at a time.
const blockIDs = 64 << 10

// ledger keeps the IDs that came, up to a bound.
type ledger struct {
	bound  int64
	blocks [][]int64
	kept   int64
	left   int64 // came beyond the bound
}

func (l *ledger) add(ids []int64) {
	n := min(int64(len(ids)), l.bound-l.kept)
	l.kept += n
	l.left += int64(len(ids)) - n
	for ids = ids[:n]; len(ids) > 0; {
		last := len(l.blocks) - 1
		if last < 0 || len(l.blocks[last]) == blockIDs {
			l.blocks = append(l.blocks, make([]int64, 0, blockIDs))
			continue
		}
		fits := min(len(ids), blockIDs-len(l.blocks[last]))
		l.blocks[last] = append(l.blocks[last], ids[:fits]...)
		ids = ids[fits:]
	}
}

// Duplicates are the IDs that came more than once.
type Duplicates struct {
	// Count is how many IDs came that had come before.
	Count int64
	// First are the lowest of them, at most five.
	First []int64
}

// duplicates compares all IDs exactly. It sorts them in 16 parts, one after the other,
// so that it needs little memory beyond theirs.
func (l *ledger) duplicates() (found Duplicates) {
	const parts, named = 16, 5
	part := make([]int64, 0, l.kept/parts*5/4)
	for p := range uint64(parts) {
		part = part[:0]
		for _, block := range l.blocks {
			for _, id := range block {
				if uint64(id)*0x9e3779b97f4a7c15>>60 == p { // a hash: IDs may have any pattern
					part = append(part, id)
				}
			}
		}
		slices.Sort(part)
		for i := 1; i < len(part); i++ {
			if part[i] == part[i-1] {
				found.Count++
				found.First = append(found.First, part[i])
			}
		}
		slices.Sort(found.First)
		found.First = slices.Compact(found.First)
		found.First = found.First[:min(named, len(found.First))]
	}
	return found
}

// Report is the result of a run. Unless it says otherwise, it is about the time that
// was measured, without the warm-up.
type Report struct {
	URL, Mode string
	// Requests were answered as they should be; IDs came with them.
	Requests, IDs int64
	// Errors are refusals and failed connections by kind: "connect", "timeout",
	// "closed", "malformed", or the status with the code, as in "503 code -4"; over RESP
	// there is no status.
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

// report is about what came of the run, which must have ended.
func (r *run) report() *Report {
	out := &Report{
		URL: r.opts.URL, Mode: r.opts.Mode, Rate: r.opts.Rate, Interrupted: r.interrupted,
		Requests: r.requests, IDs: r.ids, Unsent: r.unsent,
		Errors: r.errors, Breaches: r.breaches, FirstError: cmp.Or(r.firstError, r.firstBreach),
		Duration:   time.Duration(max(r.ended, r.from, r.last) - r.from),
		Duplicates: r.seen.duplicates(), Compared: r.seen.kept, NotCompared: r.seen.left,
	}
	if r.opts.Raw != "" {
		out.Mode = "raw"
	}
	if h := r.latency; h.TotalCount() > 0 {
		at := func(percent float64) time.Duration { return time.Duration(h.ValueAtQuantile(percent)) }
		out.Latency = Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: time.Duration(h.Max()), Mean: time.Duration(h.Mean())}
	}
	return out
}
