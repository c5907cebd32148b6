package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/service/background"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"
)

// `shardid bench` puts a server under load over HTTP, and reports how fast and how late it answers, with which errors,
// and whether an ID came twice.
//
// In a closed loop each connection sends its next request when the last answer has come. At a
// constant rate requests are due by a schedule that nothing delays: a connection that is free takes
// the next one and waits until it is due. One that no connection was free for is sent late, and its
// latency counts from when it was due, so a server that stalls is seen.

// bencher is one run: what the flags say, and what has come of it.
type bencher struct {
	mode, tag, space string
	app              int
	passes           int // how many values of gatePass, or keys of the space, take turns
	batch            int // IDs of a request
	connections      int
	rate             float64       // requests due a second, over all connections; 0 is a closed loop
	duration         time.Duration // how long requests are sent

	url, token string
	client     *http.Client
	begun      time.Time
	turns      atomic.Int64 // requests that connections took

	mu      sync.Mutex // guards the rest
	out     benchReport
	latency *hdrhistogram.Histogram
}

// benchReport is the result of a run, in JSON too.
type benchReport struct {
	URL               string  `json:"url"`
	Mode              string  `json:"mode"`
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

func (c *cli) bench() *cobra.Command {
	var ask asking
	b := &bencher{}
	cmd := &cobra.Command{
		Use:   "bench [--url URL] [--mode queue|segment|snowflake|uid|sequence]",
		Short: "Put a server under load, and check that no ID comes twice",
		Example: `  shardid bench --url http://127.0.0.1:8080
  shardid bench --url http://127.0.0.1:8080 --mode segment --tag orders --count 100
  shardid bench --url https://ids.example.com --rate 5000 --duration 1m --json
  shardid bench --url http://127.0.0.1:8080 --mode sequence --space chat --passes 1000`,
		Args: cobra.NoArgs,
	}
	ask.register(cmd, 5*time.Second, ownServer)
	f := cmd.Flags()
	f.StringVar(&b.mode, "mode", "queue", "queue, segment, snowflake, uid or sequence")
	f.IntVar(&b.app, "app", 1, "app `ID` of the queue mode, 0…255")
	f.IntVar(&b.passes, "passes", 1024,
		"how many `values` of gatePass, or keys of a sequence, take turns")
	f.StringVar(&b.tag, "tag", "leaf-segment-test", "`tag` of the segment mode")
	f.StringVar(&b.space, "space", "", "`space` of the sequence mode, whose numbers are not compared")
	f.IntVar(&b.batch, "count", 1, "ask for batches of this many `IDs`, 1…10000")
	f.Float64Var(&b.rate, "rate", 0, "`requests` due a second, over all connections (default a closed loop)")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "how much `time` to send requests for")
	f.IntVar(&b.connections, "concurrency", 64, "`connections`, each with one request in flight")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) (err error) {
		if b.path(0) == "" {
			return fmt.Errorf("%w: give --mode queue, segment, snowflake, uid or sequence", model.ErrInvalidArgument)
		}
		if b.connections < 1 || b.batch < 1 || b.duration <= 0 || !(b.rate >= 0 && b.rate <= math.MaxFloat64) {
			return fmt.Errorf("%w: give --concurrency, --count and --duration above 0, and no negative --rate",
				model.ErrInvalidArgument)
		}
		transport := &http.Transport{MaxIdleConnsPerHost: b.connections}
		defer transport.CloseIdleConnections()
		if b.url, transport.TLSClientConfig, err = ask.resolve(cfg); err != nil {
			return err
		}
		if b.token, err = ask.token(); err != nil {
			return err
		}
		b.client = &http.Client{Transport: transport, Timeout: ask.timeout, CheckRedirect: stay}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)() // from here on a signal kills
		if err := b.run(ctx); err != nil {
			return err
		}
		return cmp.Or(c.print(cmd, b.out, b.printReport), b.out.verdict())
	})
}

// verdict is an error when an ID came twice, an answer was not what it must be, or nothing was answered.
func (r benchReport) verdict() error {
	switch bad := r.Errors[badAnswer]; {
	case r.Duplicates > 0:
		return fmt.Errorf("stop the server, and report this: %d IDs came that had come before, such as %d",
			r.Duplicates, r.FirstDuplicates)
	case bad > 0:
		return fmt.Errorf("look whether a shardid answers there: it answered %d times with %s", bad, badAnswer)
	case r.Requests == 0:
		return fmt.Errorf("try a longer --duration: nothing was answered in %.1f s: %s", r.Duration, r.FirstError)
	}
	return nil
}

// run puts the server under load and reports. When ctx ends early, the report is about the time until
// then. It fails when the first request does.
func (b *bencher) run(ctx context.Context) error {
	b.latency = hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	b.out = benchReport{URL: b.url, Mode: b.mode, IntendedRate: b.rate, Errors: map[string]int64{}}
	first, err := b.request(ctx, 0)
	if _, answered := errors.AsType[answerError](err); err != nil && !answered {
		err = unanswered(err)
	}
	if err != nil {
		return fmt.Errorf("%w: the first request to %s failed", err, b.url)
	}
	b.begun = time.Now()
	loading, cancel := context.WithTimeout(ctx, b.duration)
	defer cancel()
	seen := make([][]int64, b.connections)
	var all sync.WaitGroup
	for i := range seen {
		all.Go(func() { seen[i] = b.load(loading) })
	}
	all.Wait()
	b.out.Interrupted = ctx.Err() != nil
	b.summarize(slices.Concat(append(seen, first)...))
	return nil
}

// path is what a request asks for, with its query, in the form that all modes have. Values of gatePass end in 64
// characters that follow each other, so all shards get as many requests.
func (b *bencher) path(turn int) (path string) {
	turn %= max(1, b.passes)
	name := fmt.Sprintf("bench-%d-%c", turn/model.Shards, '?'+turn%model.Shards)
	query := url.Values{"count": {strconv.Itoa(b.batch)}}
	switch b.mode {
	case "queue":
		path = "/v1/queue/" + strconv.Itoa(b.app)
		query.Set("gatePass", name)
	case "segment":
		path = "/v1/segment/" + url.PathEscape(b.tag)
	case "snowflake", "uid":
		path = "/v1/" + b.mode
	case "sequence":
		path = "/v1/sequence/" + url.PathEscape(b.space)
		query.Set("key", name)
	default:
		return ""
	}
	return path + "/ids?" + query.Encode()
}

// load is one connection's share of the run. It gives the IDs that came, as many as are compared.
func (b *bencher) load(ctx context.Context) (seen []int64) {
	for ctx.Err() == nil {
		turn := b.turns.Add(1) - 1
		due := time.Now()
		if b.rate > 0 {
			due = b.begun.Add(time.Duration(float64(turn) / b.rate * float64(time.Second)))
		}
		if early := time.Until(due); early > 0 {
			background.Pause(ctx, early, nil)
			if due = time.Now(); ctx.Err() != nil { // a timer that comes late is not the server's fault
				break
			}
		}
		ids, err := b.request(context.WithoutCancel(ctx), int(turn)) // what is under way at the end counts
		b.count(due, ids, err)
		fits := max(0, min(len(ids), maxCompared/b.connections-len(seen)))
		seen = append(seen, ids[:fits]...)
		if _, answered := errors.AsType[answerError](err); err != nil && !answered {
			background.Pause(ctx, 20*time.Millisecond, nil) // or a server that is unreachable would be asked in a spin
		}
	}
	return seen
}

// badAnswer is the kind of an error that no server may answer with.
const badAnswer = "not as many IDs above 0 as were asked for (a tag with a pattern has texts)"

// answerError is an answer without what was asked for.
type answerError struct{ kind, message string } // the status and the code, and what the server said

func (e answerError) Error() string { return strings.TrimPrefix(e.message+": "+e.kind, ": ") }

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
func (b *bencher) request(ctx context.Context, turn int) ([]int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+b.path(turn), nil)
	if err != nil {
		return nil, err
	}
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	var a struct {
		Code    *int
		Message string
		IDs     []json.Number // as strings
	}
	switch isJSON := json.Unmarshal(body, &a) == nil && a.Code != nil; {
	case isJSON && *a.Code != 0:
		return nil, answerError{fmt.Sprintf("%d code %d", res.StatusCode, *a.Code), a.Message}
	case res.StatusCode != http.StatusOK:
		return nil, answerError{strconv.Itoa(res.StatusCode), fmt.Sprintf("%v: %.100q", errNotShardid, body)}
	}
	ids := make([]int64, len(a.IDs))
	for i, text := range a.IDs {
		ids[i], _ = text.Int64() // 0 for what is none
	}
	if len(ids) != b.batch || slices.Min(ids) < 1 {
		return nil, answerError{kind: badAnswer}
	}
	return ids, nil
}

// count accounts for a request and its IDs.
func (b *bencher) count(due time.Time, ids []int64, err error) {
	late := time.Since(due)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.out.Requests++
		b.out.IDs += int64(len(ids))
		_ = b.latency.RecordValue(min(late, time.Hour).Microseconds()) // it fits
	} else {
		b.out.Failed++
		b.out.Errors[kindOf(err)]++
		b.out.FirstError = cmp.Or(b.out.FirstError, model.Message(err))
	}
}

// summarize fills in what follows from the counts, and looks for IDs that came twice.
func (b *bencher) summarize(seen []int64) {
	out := &b.out
	out.Duration = time.Since(b.begun).Seconds()
	out.RequestsPerSecond = float64(out.Requests) / out.Duration
	out.IDsPerSecond = float64(out.IDs) / out.Duration
	out.Unsent = max(0, int64(min(out.Duration, b.duration.Seconds())*b.rate)-b.turns.Load())
	out.Latency = map[string]float64{"max": float64(b.latency.Max()) / 1000, "mean": b.latency.Mean() / 1000}
	for name, percent := range map[string]float64{"p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9} {
		out.Latency[name] = float64(b.latency.ValueAtQuantile(percent)) / 1000
	}
	if b.mode == "sequence" { // the numbers of two keys are alike
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

// printReport is the report for people, in columns.
func (b *bencher) printReport(w io.Writer) {
	r := b.out
	fmt.Fprintf(w, "%s\t%s, %.1f s%s\n", r.Mode, r.URL, r.Duration,
		map[bool]string{true: ", interrupted"}[r.Interrupted])
	fmt.Fprintf(w, "requests\t%d\t%.0f/s\n", r.Requests, r.RequestsPerSecond)
	fmt.Fprintf(w, "IDs\t%d\t%.0f/s\n", r.IDs, r.IDsPerSecond)
	if r.IntendedRate > 0 {
		fmt.Fprintf(w, "rate\t%g/s, %d requests were due and not sent in time\n", r.IntendedRate, r.Unsent)
	}
	separator := "latency\t"
	for _, name := range []string{"p50", "p90", "p99", "p99.9", "max", "mean"} {
		fmt.Fprintf(w, "%s%s %.4g ms", separator, name, r.Latency[name])
		separator = ", "
	}
	fmt.Fprintf(w, "\nerrors\t%d\n", r.Failed)
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(w, "\t%d × %s\n", r.Errors[kind], kind)
	}
	if r.FirstError != "" {
		fmt.Fprintf(w, "first error\t%s\n", r.FirstError)
	}
	fmt.Fprintf(w, "duplicates\t%d among %d IDs\n", r.Duplicates, r.ComparedIDs)
}

// serverURL is where a server of this configuration is reached from its own machine.
func serverURL(s config.Server) (string, error) {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil || port == "0" {
		return "", fmt.Errorf("%w: give --url: server.addr %q does not tell where the server is",
			model.ErrInvalidArgument, s.Addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return s.Scheme() + "://" + net.JoinHostPort(host, port), nil
}
