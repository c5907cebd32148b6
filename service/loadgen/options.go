package load

import (
	"crypto/tls"
	"fmt"
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
)

// Bounds of what can be asked for.
const (
	maxConcurrency = 10_000
	maxRate        = 10_000_000
	maxPasses      = 100_000
	maxBatch       = 10_000 // of the contract
	maxDuration    = 30 * 24 * time.Hour
)

// Options of a run.
type Options struct {
	// URL is the server: http or https, host, and a path when it is not at the root.
	URL string
	// Mode is what is asked for IDs.
	Mode string
	// Raw is a path that is fetched instead of the mode's, with its query; only
	// the status of its answers is looked at. Empty for none.
	Raw string
	// App is the app of the queue mode, 0…255.
	App int
	// Apps is how many apps from App on take turns, 1…256; 0 is 1. Each comes with
	// all 64 shards before the next if there are so many Passes.
	Apps int
	// Passes is how many different values of gatePass take turns, so that all 64
	// shards are used alike. 1…100000.
	Passes int
	// Tag is the key of the segment mode.
	Tag string
	// Count is the size of a batch, 1…10000; 0 asks for a single ID.
	Count int
	// Token is sent as a bearer token; empty for none.
	Token string
	// Rate is how many requests are due a second, over all connections; 0 is a
	// closed loop.
	Rate float64
	// Duration is the time that is measured. 1ms…30 days.
	Duration time.Duration
	// Warmup precedes it: what happens then is neither in the latencies nor in the
	// counts, but IDs that came then must not come again. 0…30 days.
	Warmup time.Duration
	// Timeout is how long an answer may take, connecting included, before the
	// request counts as failed; it can take up to a quarter longer to be noticed.
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
	for _, r := range []struct {
		name           string
		value, low, up float64
	}{
		{"concurrency", float64(o.Concurrency), 1, maxConcurrency},
		{"rate", o.Rate, 0, maxRate},
		{"app", float64(o.App), 0, model.Apps - 1},
		{"apps", float64(o.Apps), 0, float64(model.Apps - o.App)},
		{"passes", float64(o.Passes), 1, maxPasses},
		{"count", float64(o.Count), 0, maxBatch},
		{"compare", float64(o.Compare), 0, 1 << 40},
	} {
		if !(r.value >= r.low && r.value <= r.up) { // the negation holds for NaN
			return fmt.Errorf("%w: %s is %v, it must be in %v…%v", model.ErrInvalidArgument, r.name, r.value, r.low, r.up)
		}
	}
	return o.checkTimes()
}

func (o Options) checkTimes() error {
	for _, r := range []struct {
		name       string
		value, low time.Duration
	}{
		{"duration", o.Duration, time.Millisecond},
		{"warmup", o.Warmup, 0},
		{"timeout", o.Timeout, time.Millisecond},
	} {
		if r.value < r.low || r.value > maxDuration {
			return fmt.Errorf("%w: %s is %v, it must be in %v…%v", model.ErrInvalidArgument, r.name, r.value, r.low, maxDuration)
		}
	}
	return o.checkToken()
}

// checkToken keeps whatever is no token out of the head of requests.
func (o Options) checkToken() error {
	if strings.ContainsFunc(o.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Errorf("%w: the bearer token must be visible ASCII without spaces", model.ErrInvalidArgument)
	}
	return nil
}
