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
// half of it is used. What stays in a buffer for a minute is thrown away, as is everything
// when the client or its process ends: these IDs are never used. So IDs are unique, and
// neither dense nor in the order of time between clients.
//
// An ID is a number; [model.Format] writes it as text, for people and URLs, and reads it.
//
// The IDs of a buffer belong to the process that fetched them. A process that is copied as
// a whole, by a snapshot of its virtual machine or a checkpoint, would use them twice:
// Close before, and make a new client after.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
)

// Defaults of Options.
const (
	DefaultMaxHeld = 100_000
	DefaultTimeout = 3 * time.Second
)

// ErrClosed is what a client answers after Close.
var ErrClosed = errors.New("shardid: the client is closed")

// Error is a refusal of the service.
type Error struct {
	Code    int    // of shardid's error table: -5, the app reached its limit, for example
	Status  int    // of HTTP
	Message string // what is wrong and what to do
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("shardid: %s (code %d)", e.Message, e.Code) }

// Options of a Client. Addrs is required.
type Options struct {
	// Addrs are the replicas: http://host:port or https://host:port. Requests are spread
	// over them; one that does not answer is left out for a while.
	Addrs []string
	// Token is sent with each request; "" where none is required.
	Token string
	// HTTPClient speaks to the replicas, for TLS for example; nil for one of its own.
	HTTPClient *http.Client
	// MaxHeld is the most IDs that a buffer holds, 1 or more; 0 means DefaultMaxHeld.
	// With 1 each ID is fetched when it is asked for.
	MaxHeld int
	// Timeout is how long one fetch may take, other replicas and repetitions included;
	// 0 means DefaultTimeout. A call whose buffer is dry waits no longer.
	Timeout time.Duration
}

// Client holds the buffers. Make one with New, share it, and Close it. Safe for
// concurrent use.
type Client struct {
	opts    Options
	http    *http.Client
	own     *http.Transport // of http; nil when it is the caller's
	base    context.Context // of every fetch, until Close
	cancel  context.CancelFunc
	fetches sync.WaitGroup

	replicas []*replica
	turn     atomic.Uint64 // whose turn it is

	queues    [model.Apps]atomic.Pointer[Queue]
	snowflake Source
	uid       Source

	mu       sync.Mutex // guards what follows
	segments map[string]*Source
	buffers  []*buffer // all of them, for the janitor
	closed   bool
	janitor  *time.Timer
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
	c := &Client{opts: opts, http: opts.HTTPClient, segments: map[string]*Source{}}
	for _, addr := range opts.Addrs {
		u, err := url.Parse(addr)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("shardid: the address %q is not http://host:port or https://host:port", addr)
		}
		c.replicas = append(c.replicas, &replica{url: strings.TrimRight(addr, "/")})
	}
	if c.http == nil {
		c.own = http.DefaultTransport.(*http.Transport).Clone()
		c.own.MaxIdleConnsPerHost = 16
		c.http = &http.Client{Transport: c.own}
	}
	c.turn.Store(rand.Uint64N(uint64(len(c.replicas)))) // not all clients begin with the same
	c.base, c.cancel = context.WithCancel(context.Background())
	c.snowflake.buffer = c.newBuffer("/v1/snowflake/ids?")
	c.uid.buffer = c.newBuffer("/v1/uid/ids?")
	c.janitor = time.AfterFunc(sweepEvery, c.sweep)
	return c, nil
}

// Close throws away what is held and ends what is under way. It may be called twice.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.janitor.Stop()
	buffers := c.buffers
	c.mu.Unlock()
	c.cancel()
	for _, b := range buffers {
		b.close()
	}
	c.fetches.Wait()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// Queue is the source of an app's IDs, 0…255. Keep it, or ask again: it is always the same.
func (c *Client) Queue(app uint8) *Queue {
	if q := c.queues[app].Load(); q != nil {
		return q
	}
	c.queues[app].CompareAndSwap(nil, &Queue{client: c, app: app})
	return c.queues[app].Load()
}

// Segment is the source of a tag's IDs. Keep it, or ask again: it is always the same.
func (c *Client) Segment(tag string) *Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.segments[tag]
	if s == nil {
		s = &Source{buffer: c.addBuffer("/v1/segment/" + url.PathEscape(tag) + "/ids?")}
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

// Snowflake is the source of snowflakes.
func (c *Client) Snowflake() *Source { return &c.snowflake }

// UID is the source of UIDs.
func (c *Client) UID() *Source { return &c.uid }

// newBuffer makes a buffer that is fetched from a path, to which parameters are added.
func (c *Client) newBuffer(path string) *buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addBuffer(path)
}

// addBuffer is newBuffer for callers that hold mu.
func (c *Client) addBuffer(path string) *buffer {
	b := &buffer{client: c, path: path, target: min(firstTarget, c.opts.MaxHeld)}
	b.drop()
	if c.closed {
		b.close()
	}
	c.buffers = append(c.buffers, b)
	return b
}

// sweep throws away what has not been used for a while.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	for _, b := range c.buffers {
		b.dropIdle()
	}
	c.janitor.Reset(sweepEvery)
}

// Source is where IDs come from that depend on nothing else. Safe for concurrent use.
type Source struct{ buffer *buffer }

// Next is one ID. Errors: *Error, ErrClosed, the context's, or that of the network after
// Options.Timeout.
func (s *Source) Next(ctx context.Context) (int64, error) { return s.buffer.next(ctx) }

// Take is n IDs, 1 or more, or an error.
func (s *Source) Take(ctx context.Context, n int) ([]int64, error) { return s.buffer.take(ctx, n) }

// Queue is where the IDs of an app come from: a buffer for each of its 64 shards. Safe for
// concurrent use.
type Queue struct {
	client *Client
	app    uint8
	shards [model.Shards]atomic.Pointer[buffer]
}

// Next is one ID of the shard of gatePass, as Source.Next.
func (q *Queue) Next(ctx context.Context, gatePass string) (int64, error) {
	b, err := q.buffer(gatePass)
	if err != nil {
		return 0, err
	}
	return b.next(ctx)
}

// Take is n IDs of the shard of gatePass, as Source.Take.
func (q *Queue) Take(ctx context.Context, gatePass string, n int) ([]int64, error) {
	b, err := q.buffer(gatePass)
	if err != nil {
		return nil, err
	}
	return b.take(ctx, n)
}

func (q *Queue) buffer(gatePass string) (*buffer, error) {
	n, err := model.CheckedShardOf(gatePass)
	if err != nil {
		return nil, err
	}
	shard := &q.shards[n]
	if b := shard.Load(); b != nil {
		return b, nil
	}
	q.client.mu.Lock()
	defer q.client.mu.Unlock()
	if shard.Load() == nil {
		// Any gatePass of the shard gets the shard's IDs.
		path := "/v1/queue/" + strconv.Itoa(int(q.app)) + "/ids?gatePass=" + url.QueryEscape(gatePass) + "&"
		shard.Store(q.client.addBuffer(path))
	}
	return shard.Load(), nil
}

// Number is where the business numbers of a tag come from. Safe for concurrent use.
type Number struct {
	client *Client
	path   string
}

// Next is one text, as Source.Next.
func (n *Number) Next(ctx context.Context) (string, error) {
	texts, err := n.Take(ctx, 1)
	if err != nil {
		return "", err
	}
	return texts[0], nil
}

// Take is count texts, 1 to 10,000, from one request.
func (n *Number) Take(ctx context.Context, count int) (texts []string, err error) {
	if count < 1 || count > maxBatch {
		return nil, fmt.Errorf("shardid: %d numbers: ask for 1 to %d", count, maxBatch)
	}
	c := n.client
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	err = c.askInTurn(ctx, n.path+strconv.Itoa(count), func(a answer) error {
		if texts = a.IDs; len(texts) != count {
			return fmt.Errorf("%d IDs, not %d", len(texts), count)
		}
		return nil
	})
	if c.base.Err() != nil {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return texts, nil
}
