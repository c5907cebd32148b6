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

// countOutcome accounts for what came at a time of requests, or a connection, that were due at a
// time. A breach is counted also in the warm-up.
func (r *run) countOutcome(o outcome, due, now int64) {
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

// duplicates is how many IDs came that had come before, and the lowest of them, at most
// five. It compares all exactly and sorts them in 16 parts, one after the other, so that it
// needs little memory beyond theirs.
func (l *ledger) duplicates() (count int64, first []int64) {
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
				count++
				first = append(first, part[i])
			}
		}
		slices.Sort(first)
		first = slices.Compact(first)
		first = first[:min(named, len(first))]
	}
	return count, first
}

// Report is the result of a run, in JSON too: fields may be added, those that are here keep
// their names and meanings. Unless it says otherwise, it is about the time that was
// measured, without the warm-up.
type Report struct {
	URL  string `json:"url"`
	Mode string `json:"mode"` // queue, segment, snowflake, uid or raw
	// Duration is from the end of the warm-up to the last answer, in seconds, at least as
	// long as was asked for unless Interrupted.
	Duration float64 `json:"duration"`
	// Requests were answered as they should be; IDs came with them.
	Requests          int64   `json:"requests"`
	IDs               int64   `json:"ids"`
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	IDsPerSecond      float64 `json:"idsPerSecond"`
	// IntendedRate is the rate that was asked for, 0 for a closed loop; AchievedRate counts
	// requests whatever came of them. Both are requests a second.
	IntendedRate float64 `json:"intendedRate"`
	AchievedRate float64 `json:"achievedRate"`
	// Unsent requests were due and not sent when the time was up. Their latency is
	// how long they had waited by then.
	Unsent int64 `json:"unsent"`
	// Latency of Requests, and of what Unsent counts.
	Latency Latency `json:"latency"`
	// Errors are refusals and failed connections by kind: "connect", "timeout",
	// "closed", "malformed", or the status with the code, as in "503 code -4"; over RESP
	// there is no status.
	Errors map[string]int64 `json:"errors"`
	// Breaches are answers that must never be, by what was wrong, warm-up included.
	Breaches map[string]int64 `json:"badAnswers"`
	// FirstError is the first of the errors, else of the breaches; "" without any.
	FirstError string `json:"firstError,omitempty"`
	// Duplicates are IDs that had come before, warm-up included, among the first Compared,
	// and FirstDuplicates the lowest of them, at most five. NotCompared came beyond
	// Options.Compare.
	Duplicates      int64   `json:"duplicates"`
	FirstDuplicates []int64 `json:"-"`
	Compared        int64   `json:"comparedIds"`
	NotCompared     int64   `json:"notComparedIds"`
	Interrupted     bool    `json:"interrupted"`
}

// Latency is a distribution in milliseconds, from when a request was sent (in a closed
// loop) or due (at a rate) to the end of its answer. It is zero without any.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Failed are the errors and breaches together.
func (r *Report) Failed() (n int64) {
	for _, counts := range []map[string]int64{r.Errors, r.Breaches} {
		for v := range maps.Values(counts) {
			n += v
		}
	}
	return n
}

// report is about what came of the run, which must have ended.
func (r *run) report() *Report {
	duration := time.Duration(max(r.ended, r.from, r.last) - r.from).Seconds()
	perSecond := func(n int64) float64 {
		if duration == 0 {
			return 0
		}
		return float64(n) / duration
	}
	out := &Report{
		URL: r.opts.URL, Mode: r.opts.Mode, Interrupted: r.interrupted, Duration: duration,
		Requests: r.requests, RequestsPerSecond: perSecond(r.requests),
		IDs: r.ids, IDsPerSecond: perSecond(r.ids), IntendedRate: r.opts.Rate, Unsent: r.unsent,
		Errors: r.errors, Breaches: r.breaches, Compared: r.seen.kept, NotCompared: r.seen.left,
	}
	out.AchievedRate = perSecond(r.requests + out.Failed())
	out.Duplicates, out.FirstDuplicates = r.seen.duplicates()
	if err := cmp.Or(r.firstError, r.firstBreach); err != nil {
		out.FirstError = err.Error()
	}
	if r.opts.Raw != "" {
		out.Mode = "raw"
	}
	if h := r.latency; h.TotalCount() > 0 {
		at := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1e6 }
		out.Latency = Latency{at(50), at(90), at(99), at(99.9), float64(h.Max()) / 1e6, float64(time.Duration(h.Mean())) / 1e6}
	}
	return out
}
