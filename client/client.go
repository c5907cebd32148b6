// Package client gets IDs from shardid ahead of demand, so that most calls cost
// nanoseconds:
//
//	c, err := client.New(client.Options{Addrs: []string{"http://127.0.0.1:8080"}})
//	if err != nil { … }
//	defer c.Close()
//	orders := c.Segment("orders")
//	id, err := orders.Next(ctx)
//
// For each app and shard, each tag, snowflakes and UIDs, a client holds a buffer of IDs. It
// grows with use to what about two seconds take, and is refilled in the background when
// half of it is used. What is held when the client or its process ends is never used. So IDs
// are unique, and neither dense nor in the order of time between clients.
//
// A [Number] or a [Sequence] holds nothing ahead: each call asks a replica. The numbers of a key of
// a sequence rise strictly, whoever asks:
//
//	seq, err := c.Sequence("chat").Next(ctx, "room42")
//
// A [Generator] makes snowflakes in the process itself, with a worker ID that it leases.
//
// An ID is a number; [idtext.Format] writes it as text, for people and URLs, and reads it.
//
// The IDs of a buffer belong to the process that fetched them. A process that is copied as
// a whole, by a snapshot of its virtual machine or a checkpoint, would use them twice:
// Close before, and make a new client after.
package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/hold"
)

// Defaults of Options.
const (
	DefaultMaxHeld = 100_000
	DefaultTimeout = 3 * time.Second
)

// The most IDs, and business numbers or numbers of a sequence, of one Take.
const (
	MaxTake    = 1_000_000
	MaxNumbers = maxBatch
)

// Codes of an Error, from docs/api.md. Those marked with * may succeed a moment later; the
// client has tried for Options.Timeout before it returns one of them.
const (
	CodeNotReady     = -1  // * the service is not initialised yet
	CodeUnknown      = -2  // the app, the tag, the name or the space is not provisioned
	CodeUnknownShard = -3  // the shard is not provisioned
	CodeEmpty        = -4  // * no ID arrived in time
	CodeLimit        = -5  // the app or the tag reached its limit
	CodeInvalid      = -6  // a parameter is missing or malformed
	CodeToken        = -7  // the token is missing, unknown, or not for this
	CodeUnavailable  = -8  // * snowflake and UID refuse for now; no worker ID is free
	CodeDisabled     = -9  // the mode is disabled
	CodeNoRoute      = -10 // no such path: is the address right?
	CodeInternal     = -11 // * a fault of shardid, whose log has it
	CodeTooMany      = -12 // * the token's rate is used up
	CodeLeaseLost    = -14 // the lease of a worker ID has ended: a Generator gets a new one
)

var (
	// ErrClosed is what a client, or a Generator, answers after Close.
	ErrClosed = errors.New("shardid: the client is closed")
	// ErrTimeout is in the error of a call that got nothing within Options.Timeout, beside
	// what the last replica said. It is not context.DeadlineExceeded, which is that of the
	// caller's context alone.
	ErrTimeout = errors.New("shardid: no IDs within Options.Timeout")
)

// Error is a refusal of the service.
type Error struct {
	Code    int    // CodeLimit, for example
	Status  int    // of HTTP
	Message string // what is wrong and what to do
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("shardid: %s (code %d)", e.Message, e.Code) }

// Options of a Client. Addrs is required.
type Options struct {
	// Addrs are the replicas: http://host:port or https://host:port. Requests are spread
	// over them; one that does not answer, or has no IDs, is asked last for a while. A path before /v1 is kept.
	Addrs []string
	// Token is sent with each request; "" where none is required.
	Token string
	// HTTPClient speaks to the replicas; nil for one of its own. Its Transport is the place for TLS,
	// traces and metrics.
	HTTPClient *http.Client
	// MaxHeld is the most IDs that a buffer holds ahead, 1 or more, beside what a Take asks for; 0 means
	// DefaultMaxHeld. With 1 each ID is fetched when it is asked for.
	MaxHeld int
	// Timeout is how long one fetch may take, other replicas and repetitions included;
	// 0 means DefaultTimeout. Where there are others, one replica may take three quarters of it. A call
	// whose buffer is dry gets the error of the fetch that it waits for; one for more than 10,000
	// IDs waits for several, for four times as long at most.
	Timeout time.Duration
	// Instance is what the holder of a worker ID calls itself, such as a host name: at most 128
	// printable bytes, "" for nothing. People see it, and a Generator of a later process
	// with the same name gets the same worker ID again where that is free.
	Instance string
}

// Client holds the buffers. Make one with New, share it, and Close it. Safe for
// concurrent use.
type Client struct {
	opts    Options
	made    time.Time // since then its clock runs, see replica.lastTill
	http    *http.Client
	own     *http.Transport // of http; nil when it is the caller's
	base    context.Context // of every fetch and renewal, until Close
	cancel  context.CancelFunc
	running sync.WaitGroup // fetches, and the goroutines that renew leases

	replicas []*replica
	turn     atomic.Uint64 // whose turn it is

	queues    [math.MaxUint8 + 1]atomic.Pointer[Queue]
	snowflake *Source
	uid       *Source

	mu       sync.Mutex // guards what follows
	segments map[string]*Source
	buffers  []*hold.Pool
	closed   bool
	kept     []error // of worker IDs that Close could not release
}

// New checks the options. It asks no replica and starts no goroutine.
func New(opts Options) (*Client, error) {
	if len(opts.Addrs) == 0 {
		return nil, errors.New("shardid: Options.Addrs is empty: name a replica, http://127.0.0.1:8080 for example")
	}
	if opts.MaxHeld < 0 || opts.Timeout < 0 {
		return nil, fmt.Errorf("shardid: MaxHeld %d or Timeout %v is negative", opts.MaxHeld, opts.Timeout)
	}
	if opts.MaxHeld == 0 {
		opts.MaxHeld = DefaultMaxHeld
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	c := &Client{opts: opts, made: time.Now(), http: opts.HTTPClient, segments: map[string]*Source{}}
	for _, addr := range opts.Addrs {
		if err := checkAddr(addr); err != nil {
			return nil, err
		}
		c.replicas = append(c.replicas, &replica{url: strings.TrimRight(addr, "/")})
	}
	if c.http == nil {
		c.http = &http.Client{CheckRedirect: stay}
		if known, is := http.DefaultTransport.(*http.Transport); is { // else it is the program's own
			c.own = known.Clone()
			c.own.MaxIdleConnsPerHost = 16
			// Without a ping, HTTP/2 keeps a connection whose replica is gone for a quarter of an hour.
			quiet := max(opts.Timeout, time.Second)
			c.own.HTTP2 = &http.HTTP2Config{SendPingTimeout: quiet, PingTimeout: quiet}
			c.http.Transport = c.own
		}
	}
	c.turn.Store(rand.Uint64N(uint64(len(c.replicas)))) // not all clients begin with the same
	c.base, c.cancel = context.WithCancel(context.Background())
	c.snowflake = c.addSource("/v1/snowflake/ids?") // nobody else knows c yet
	c.uid = c.addSource("/v1/uid/ids?")
	return c, nil
}

// stay follows no redirect: the token is for the addresses that were given.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// checkAddr refuses, without a look at the network, what cannot be the address of a replica.
// It shows no user and password.
func checkAddr(addr string) error {
	u, err := url.Parse(addr)
	if err == nil && u.User != nil {
		return fmt.Errorf("shardid: the address of %s has a user: set Options.Token", u.Host)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return fmt.Errorf("shardid: the address %q is not http://host:port or https://host:port", addr)
	}
	return nil
}

// Close closes the generators, throws away what is held and ends what is under way. It may be
// called twice. The error is that of a Generator's Close.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	for _, b := range c.buffers { // which do not change any more
		b.Close(ErrClosed)
	}
	c.running.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	c.mu.Lock() // a generator may be made at this moment, which is refused and released
	defer c.mu.Unlock()
	return errors.Join(c.kept...)
}

// Queue is the source of an app's IDs, 0…255. Keep it, or ask again: it is always the same.
func (c *Client) Queue(app uint8) *Queue {
	if q := c.queues[app].Load(); q != nil {
		return q
	}
	c.queues[app].CompareAndSwap(nil, &Queue{client: c, app: app})
	return c.queues[app].Load()
}

// Segment is the source of a tag's IDs; of a tag with shard bits, Source.For is. Keep it, or ask again: it is always
// the same.
func (c *Client) Segment(tag string) *Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.segments[tag]
	if s == nil {
		path := "/v1/segment/" + url.PathEscape(tag) + "/ids?"
		s = c.addSource(path)
		s.numbers = &numbers{client: c, path: path}
		c.segments[tag] = s
	}
	return s
}

// Number is the source of a tag's business numbers, which are texts such as
// ORD-20261122-00000001. None are held: each call asks a replica, so that each text has the
// day on which it was asked for.
func (c *Client) Number(tag string) *Number {
	return &Number{client: c, path: "/v1/segment/" + url.PathEscape(tag) + "/ids?count="}
}

// Sequence is the source of a space's numbers, which rise strictly for each key. None are held:
// each call asks a replica.
func (c *Client) Sequence(space string) *Sequence {
	return &Sequence{client: c, path: "/v1/sequence/" + url.PathEscape(space) + "/"}
}

// Snowflake is the source of snowflakes.
func (c *Client) Snowflake() *Source { return c.snowflake }

// UID is the source of UIDs.
func (c *Client) UID() *Source { return c.uid }
