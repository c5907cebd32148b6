package loadgen

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// Modes of an ID service.
const (
	ModeQueue     = "queue"
	ModeSegment   = "segment"
	ModeSnowflake = "snowflake"
	ModeUID       = "uid"
	ModeSequence  = "sequence"
)

// Bounds of the options.
const (
	maxConcurrency = 10_000
	maxRate        = 10_000_000
	maxPasses      = 100_000
	maxBatch       = 10_000 // of the contract
	maxPipeline    = 1000
	maxDuration    = 30 * 24 * time.Hour
)

// Options of a run.
type Options struct {
	// URL is the server: http or https, host, and a path when it is not at the root; or
	// redis or rediss and a host, for the front end for Redis clients.
	URL string
	// Mode is what is asked for IDs.
	Mode string
	// Pipeline is how many commands are sent together over RESP, 1…1000; 0 is 1, as
	// over HTTP. Each is a request, whose latency ends with the last answer.
	Pipeline int
	// Raw is a path that is fetched instead of the mode's, with its query; only
	// the status of its answers is looked at. Empty for none. Not over RESP.
	Raw string
	// App is the app of the queue mode, 0…255.
	App int
	// Apps is how many apps from App on take turns, 1…256; 0 is 1. Each comes with
	// all 64 shards before the next if there are so many Passes.
	Apps int
	// Passes is how many different values of gatePass take turns, so that all 64
	// shards are used alike, or how many keys of Space. 1…100000.
	Passes int
	// Space is that of the sequence mode. Its numbers are not compared, as those of two
	// keys are alike.
	Space string
	// Tag is the key of the segment mode.
	Tag string
	// Count is the size of a batch, 1…10000; 0 asks for a single ID.
	Count int
	// Token is sent as a bearer token, or with AUTH; empty for none.
	Token string
	// Rate is how many requests are due a second, over all connections; those of a
	// pipeline are due together. 0 is a closed loop.
	Rate float64
	// Duration is the time that is measured. 1ms…30 days.
	Duration time.Duration
	// Warmup precedes it: what happens then is neither in the latencies nor in the
	// counts, but IDs that came then must not come again. 0…30 days.
	Warmup time.Duration
	// Timeout is how long an answer may take, connecting included, before the
	// request counts as failed; that may be noticed up to a quarter later.
	// 1ms…30 days.
	Timeout time.Duration
	// Concurrency is how many connections there are, 1…10000.
	Concurrency int
	// Compare is the most IDs that are kept, at eight bytes each, to be compared
	// with all others. Those that come later are not compared; 0 compares none.
	Compare int64
	// TLS is for https; nil for the defaults.
	TLS *tls.Config
	// Progress is called about once a second, by one goroutine. It may be nil.
	Progress func(Progress)
}

// Defaults are the options of an ordinary run: queue mode, ten seconds, a closed
// loop over 64 connections; a GiB of IDs is compared.
func Defaults() Options {
	return Options{
		Mode: ModeQueue, App: 1, Passes: 1024, Tag: "leaf-segment-test",
		Duration: 10 * time.Second, Warmup: time.Second, Timeout: 5 * time.Second,
		Concurrency: 64, Compare: 1 << 27,
	}
}

// check refuses, with model.ErrInvalidArgument, what cannot be done.
func (o Options) check() error {
	var token error
	if strings.ContainsFunc(o.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		token = fmt.Errorf("%w: the bearer token must be visible ASCII without spaces", model.ErrInvalidArgument)
	}
	return cmp.Or(
		within("concurrency", o.Concurrency, 1, maxConcurrency),
		within("rate", o.Rate, 0, maxRate),
		within("app", o.App, 0, model.Apps-1),
		within("apps", o.Apps, 0, model.Apps-o.App),
		within("passes", o.Passes, 1, maxPasses),
		within("count", o.Count, 0, maxBatch),
		within("pipeline", o.Pipeline, 0, maxPipeline),
		within("compare", o.Compare, 0, 1<<40),
		within("duration", o.Duration, time.Millisecond, maxDuration),
		within("warmup", o.Warmup, 0, maxDuration),
		within("timeout", o.Timeout, time.Millisecond, maxDuration),
		token)
}

func within[T cmp.Ordered](name string, value, low, up T) error {
	if value >= low && value <= up { // not so for NaN
		return nil
	}
	return fmt.Errorf("%w: %s is %v, it must be in %v…%v", model.ErrInvalidArgument, name, value, low, up)
}

// target is where requests go, what they ask for, and how answers are read. It does
// not change.
type target struct {
	address  string      // host:port
	tls      *tls.Config // nil for http and redis
	requests [][]byte    // they take turns
	resp     bool        // requests are commands of RESP
	pipeline int         // how many are sent together
	decode   decoder     // over HTTP; nil: the answers are not looked into
	count    int         // IDs in an answer; 0 when answers are not looked into
	greeting []byte      // over RESP, what a connection begins with
}

// schemePorts are the schemes of URLs, each with its port when the URL has none.
var schemePorts = map[string]string{"http": "80", "https": "443", "redis": "6380", "rediss": "6380"}

// newTarget is that of a run. The error is model.ErrInvalidArgument.
func newTarget(o Options) (*target, error) {
	const example = "write it like http://127.0.0.1:8080"
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || schemePorts[u.Scheme] == "":
		return nil, fmt.Errorf("%w: %q is not the URL of a server: %s, or like redis://127.0.0.1:6380",
			model.ErrInvalidArgument, o.URL, example)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%w: URL %q has no host: %s", model.ErrInvalidArgument, o.URL, example)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%w: the URL may hold a host and a path, nothing else: %s", model.ErrInvalidArgument, example)
	}
	t := &target{decode: decodeLines, count: max(o.Count, 1), pipeline: max(o.Pipeline, 1)}
	t.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), schemePorts[u.Scheme]))
	if u.Scheme == "https" || u.Scheme == "rediss" {
		if t.tls = o.TLS.Clone(); t.tls == nil {
			t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if t.tls.ServerName == "" {
			t.tls.ServerName = u.Hostname()
		}
	}
	if u.Scheme == "redis" || u.Scheme == "rediss" {
		if u.Path != "" {
			return nil, fmt.Errorf("%w: URL %q has a path, and RESP has none: write it like redis://127.0.0.1:6380",
				model.ErrInvalidArgument, o.URL)
		}
		return t, t.useRESP(o)
	}
	if t.pipeline > 1 {
		return nil, fmt.Errorf("%w: HTTP has no pipelines here: measure RESP, at a URL like redis://127.0.0.1:6380",
			model.ErrInvalidArgument)
	}
	paths, err := o.paths()
	if err != nil {
		return nil, err
	}
	switch {
	case o.Raw != "":
		t.decode, t.count = nil, 0
	case o.Mode == ModeQueue, o.Mode == ModeSequence:
		t.decode = decodeJSON
	}
	token := ""
	if o.Token != "" {
		token = "Authorization: Bearer " + o.Token + "\r\n"
	}
	for _, path := range paths {
		// The least that HTTP/1.1 asks for, so that servers are measured and not their
		// reading of headers.
		t.requests = append(t.requests, fmt.Appendf(nil, "GET %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n",
			strings.TrimSuffix(u.EscapedPath(), "/"), path, u.Host, token))
	}
	return t, nil
}

// paths are those of the requests, each with its query.
func (o Options) paths() ([]string, error) {
	batch := ""
	if o.Count > 0 {
		batch = "?count=" + strconv.Itoa(o.Count)
	}
	switch {
	case o.Raw != "":
		control := func(c rune) bool { return c <= ' ' || c == 0x7f }
		if o.Raw[0] != '/' || strings.ContainsFunc(o.Raw, control) {
			return nil, fmt.Errorf("%w: %q is not a path: it begins with / and is percent-encoded", model.ErrInvalidArgument, o.Raw)
		}
		return []string{o.Raw}, nil
	case o.Mode == ModeQueue:
		// The shards take turns, and then the apps, so that all are asked alike.
		paths := make([]string, o.Passes)
		for i := range paths {
			paths[i] = fmt.Sprintf("/get?appId=%d&gatePass=%s%s", o.appOf(i), passOf(i), strings.Replace(batch, "?", "&", 1))
		}
		return paths, nil
	case o.Mode == ModeSegment:
		return []string{"/api/segment/get/" + url.PathEscape(o.Tag) + batch}, model.CheckTag(o.Tag)
	case o.Mode == ModeSnowflake:
		return []string{"/api/snowflake/get/bench" + batch}, nil
	case o.Mode == ModeUID:
		return []string{"/api/uid/get" + batch}, nil
	case o.Mode == ModeSequence:
		paths := make([]string, o.Passes)
		for i := range paths {
			paths[i] = fmt.Sprintf("/v1/sequence/%s/ids?key=bench-%d%s", o.Space, i, strings.Replace(batch, "?", "&", 1))
		}
		return paths, model.CheckSpace(o.Space)
	}
	return nil, o.unknownMode()
}

func (o Options) unknownMode() error {
	return fmt.Errorf("%w: mode %q is none of queue, segment, snowflake, uid and sequence", model.ErrInvalidArgument, o.Mode)
}

// appOf is the app of the request with number i.
func (o Options) appOf(i int) int { return o.App + i/model.Shards%max(o.Apps, 1) }

// passOf is the gatePass with number i, of shard i mod 64. Its last two letters are
// chosen for that: numbers alone have hashes that crowd on few shards.
func passOf(i int) string {
	pass := fmt.Appendf(nil, "bench-%d-aa", i)
	letters := pass[len(pass)-2:]
	for letters[0] = 'a'; letters[0] < 'z'; letters[0]++ {
		for letters[1] = 'a'; letters[1] < 'z'; letters[1]++ {
			if model.ShardOf(string(pass)) == uint8(i%model.Shards) {
				return string(pass)
			}
		}
	}
	return string(pass) // never reached: two letters suffice for every shard
}
