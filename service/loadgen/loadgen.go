// Package loadgen puts an ID service under load over HTTP, and reports how fast and how late it answers,
// with which errors, and whether an ID came twice. Any server that answers like shardid can be measured.
//
// In a closed loop each connection sends its next request when the last answer has come. At a
// constant rate requests are due by a schedule that nothing delays: a connection that is free takes
// the next one and waits until it is due. One that no connection was free for is sent late, and its
// latency counts from when it was due, so a server that stalls is seen.
package loadgen

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/background"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Options of a run.
type Options struct {
	URL         string        // http or https with host and perhaps a path, without a slash at its end
	Mode        string        // queue, segment, snowflake, uid or sequence
	App         int           // the app of the queue mode
	Tag         string        // the key of the segment mode
	Space       string        // the space of the sequence mode
	Passes      int           // how many values of gatePass, or keys of the space, take turns
	Count       int           // IDs of a request; 0 asks for a single one
	Token       string        // the bearer token, "" for none
	Rate        float64       // requests due a second, over all connections; 0 is a closed loop
	Duration    time.Duration // how long requests are sent
	Timeout     time.Duration // how long an answer may take
	Concurrency int           // connections
	TLS         *tls.Config   // of https; nil for the defaults
}

// Report is the result of a run, in JSON too.
type Report struct {
	URL               string  `json:"url"`
	Mode              string  `json:"mode"`     // that of the options
	Duration          float64 `json:"duration"` // with what was under way when the time was up, in seconds
	Requests          int64   `json:"requests"` // that were answered as they should be
	IDs               int64   `json:"ids"`      // that came with them
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	IDsPerSecond      float64 `json:"idsPerSecond"`
	IntendedRate      float64 `json:"intendedRate"` // 0 for a closed loop
	Unsent            int64   `json:"unsent"`       // requests that were due and not sent when the time was up

	Latency         map[string]float64 `json:"latency"` // p50, p90, p99, p99.9, max and mean of Requests, ms
	Failed          int64              `json:"failed"`  // requests without the answer they should have
	Errors          map[string]int64   `json:"errors"`  // the same by kind, such as "503 code -4"
	FirstError      string             `json:"firstError,omitempty"`
	Duplicates      int64              `json:"duplicates"` // IDs that had come before, among ComparedIDs
	FirstDuplicates []int64            `json:"firstDuplicates,omitempty"`
	ComparedIDs     int64              `json:"comparedIds"`
	Interrupted     bool               `json:"interrupted"`
}

// maxCompared is how many IDs are kept for the comparison, which takes a GiB then.
const maxCompared = 1 << 26

// run is one execution of a load.
type run struct {
	Options
	client *http.Client
	begun  time.Time
	turns  atomic.Int64 // requests that connections took

	mu      sync.Mutex // guards the rest
	out     Report
	latency *hdrhistogram.Histogram
}

// Run puts a server under load and reports. When ctx ends early, the report is about the time until
// then. It fails when the first request does.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
	}
	transport := &http.Transport{TLSClientConfig: o.TLS, MaxIdleConnsPerHost: o.Concurrency}
	defer transport.CloseIdleConnections()
	r := &run{Options: o, latency: hdrhistogram.New(1, time.Hour.Microseconds(), 3)}
	r.client = &http.Client{Transport: transport, Timeout: o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.out = Report{URL: o.URL, Mode: o.Mode, IntendedRate: o.Rate, Errors: map[string]int64{}}
	first, err := r.request(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("the first request to %s failed: %w", o.URL, err)
	}
	r.begun = time.Now()
	loading, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	seen := make([][]int64, o.Concurrency)
	var all sync.WaitGroup
	for i := range seen {
		all.Go(func() { seen[i] = r.load(loading) })
	}
	all.Wait()
	r.out.Interrupted = ctx.Err() != nil
	r.summarize(slices.Concat(append(seen, first)...))
	return &r.out, nil
}

// check says which option to change.
func (o Options) check() error {
	switch {
	case o.path(0) == "":
		return errors.New("give --mode queue, segment, snowflake, uid or sequence")
	case o.Concurrency < 1 || o.Duration <= 0 || o.Rate < 0:
		return errors.New("give --concurrency and --duration above 0, and no negative --rate")
	}
	return nil
}

// path is what a request asks for, with its query. Values of gatePass end in 64 characters that follow each other, so
// all shards get as many requests.
func (o Options) path(turn int) (path string) {
	turn %= max(1, o.Passes)
	name := fmt.Sprintf("bench-%d-%c", turn/model.Shards, '?'+turn%model.Shards)
	query := url.Values{}
	switch o.Mode {
	case "queue":
		path, query = "/get", url.Values{"appId": {strconv.Itoa(o.App)}, "gatePass": {name}}
	case "segment":
		path = "/api/segment/get/" + url.PathEscape(o.Tag)
	case "snowflake":
		path = "/api/snowflake/get/bench"
	case "uid":
		path = "/api/uid/get"
	case "sequence":
		path, query = "/v1/sequence/"+url.PathEscape(o.Space)+"/ids", url.Values{"key": {name}}
	default:
		return ""
	}
	if o.Count > 0 {
		query.Set("count", strconv.Itoa(o.Count))
	}
	return strings.TrimSuffix(path+"?"+query.Encode(), "?")
}

// load is one connection's share of the run. It gives the IDs that came, as many as are compared.
func (r *run) load(ctx context.Context) (seen []int64) {
	for ctx.Err() == nil {
		turn := r.turns.Add(1) - 1
		due := r.dueAt(turn)
		if early := time.Until(due); early > 0 {
			background.Pause(ctx, early, nil)
			if due = time.Now(); ctx.Err() != nil { // a timer that comes late is not the server's fault
				break
			}
		}
		ids, err := r.request(context.WithoutCancel(ctx), int(turn)) // what is under way at the end counts
		r.count(due, ids, err)
		fits := max(0, min(len(ids), maxCompared/r.Concurrency-len(seen)))
		seen = append(seen, ids[:fits]...)
		if _, answered := errors.AsType[answerError](err); err != nil && !answered {
			background.Pause(ctx, 20*time.Millisecond, nil) // or a server that is unreachable would be asked in a spin
		}
	}
	return seen
}

// BadAnswer is the kind of an error that no server may answer with.
const BadAnswer = "not as many IDs above 0 as were asked for"

// answerError is an answer without what was asked for.
type answerError struct{ kind, message string } // the status and the code, and what the server said

func (e answerError) Error() string { return strings.TrimSuffix(e.kind+": "+e.message, ": ") }

// kindOf is the name of an error in reports: of a connection the cause, which names no address.
func kindOf(err error) string {
	if answer, ok := errors.AsType[answerError](err); ok {
		return answer.kind
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return err.Error()
}

// request asks once, and gives the IDs that came. Its errors are answerError and those of connections.
func (r *run) request(ctx context.Context, turn int) ([]int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+r.path(turn), nil)
	if err != nil {
		return nil, err
	}
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	ids, err := readAnswer(res.StatusCode, body)
	if err == nil && (len(ids) != max(1, r.Count) || slices.Min(ids) < 1) {
		err = answerError{kind: BadAnswer}
	}
	return ids, err
}

// readAnswer reads JSON with a code, or a decimal a line. What is neither gives no IDs.
func readAnswer(status int, body []byte) (ids []int64, err error) {
	var a struct {
		Code    *int
		Message string
		ID      json.Number
		IDs     []json.Number // or strings of digits
	}
	isJSON := json.Unmarshal(body, &a) == nil && a.Code != nil
	switch {
	case isJSON && *a.Code != 0:
		return nil, answerError{fmt.Sprintf("%d code %d", status, *a.Code), a.Message}
	case status != http.StatusOK:
		return nil, answerError{strconv.Itoa(status), fmt.Sprintf("%.100q", body)}
	case isJSON && a.ID != "":
		a.IDs = []json.Number{a.ID}
	case !isJSON:
		for _, line := range strings.Fields(string(body)) {
			a.IDs = append(a.IDs, json.Number(line))
		}
	}
	for _, text := range a.IDs {
		if id, err := text.Int64(); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// dueAt is when a request is due: in a closed loop at once.
func (r *run) dueAt(turn int64) time.Time {
	if r.Rate == 0 {
		return time.Now()
	}
	return r.begun.Add(time.Duration(float64(turn) / r.Rate * float64(time.Second)))
}

// count accounts for a request and its IDs.
func (r *run) count(due time.Time, ids []int64, err error) {
	late := time.Since(due)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.out.Requests++
		r.out.IDs += int64(len(ids))
		_ = r.latency.RecordValue(min(late, time.Hour).Microseconds()) // it fits
	} else {
		r.out.Failed++
		r.out.Errors[kindOf(err)]++
		r.out.FirstError = cmp.Or(r.out.FirstError, err.Error())
	}
}

// summarize fills in what follows from the counts, and looks for IDs that came twice.
func (r *run) summarize(seen []int64) {
	out := &r.out
	out.Duration = time.Since(r.begun).Seconds()
	out.RequestsPerSecond = float64(out.Requests) / out.Duration
	out.IDsPerSecond = float64(out.IDs) / out.Duration
	out.Unsent = max(0, int64(min(out.Duration, r.Duration.Seconds())*r.Rate)-r.turns.Load())
	out.Latency = map[string]float64{"max": float64(r.latency.Max()) / 1000, "mean": r.latency.Mean() / 1000}
	for name, percent := range map[string]float64{"p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9} {
		out.Latency[name] = float64(r.latency.ValueAtQuantile(percent)) / 1000
	}
	if r.Mode == "sequence" { // the numbers of two keys are alike
		return
	}
	out.ComparedIDs = int64(len(seen))
	slices.Sort(seen)
	for i := 1; i < len(seen); i++ {
		if seen[i] == seen[i-1] {
			if out.Duplicates++; len(out.FirstDuplicates) < 5 {
				out.FirstDuplicates = append(out.FirstDuplicates, seen[i])
			}
		}
	}
}
