package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/client/idtext"
)

// A Source and a Queue hold IDs ahead, in buffers that fetch them. A Number and a Sequence ask a replica in each call.

const (
	// firstFetch is how many IDs a buffer fetches first.
	firstFetch = 16
	// heldFor is for how long the IDs of a buffer should last, and below fetchBelow of that more
	// are fetched.
	heldFor    = 2 * time.Second
	fetchBelow = 0.5
)

// Source gives IDs for which a call names nothing more. Safe for concurrent use.
type Source struct {
	buffer  *hold.Pool
	numbers *numbers // of a tag, for its keys; nil for others
}

// Next is one ID. Errors: *Error; ErrTimeout, with the cause; ErrClosed; the context's.
func (s *Source) Next(ctx context.Context) (int64, error) { return s.buffer.Next(ctx) }

// Take is n IDs, 1 to MaxTake, or an error.
func (s *Source) Take(ctx context.Context, n int) ([]int64, error) {
	if n < 1 || n > MaxTake {
		return nil, fmt.Errorf("shardid: %d IDs: ask for 1 to %d", n, MaxTake)
	}
	ids, err := s.buffer.Take(ctx, n, make([]int64, 0, n))
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// For is where the IDs of a tag with shard bits come from whose remainder is that of a key: id % n == key % n for
// each n that is a power of two up to 2^bits. All keys share one buffer.
func (s *Source) For(key uint64) Sharded { return Sharded{numbers: s.numbers, key: key} }

// ForText is For for a text, such as the name of a tenant: digits are a number, and any other text counts by its CRC-32
// (IEEE), as MySQL's CRC32(). A text that is no key, see [idtext.ShardKey], fails when IDs are asked for.
func (s *Source) ForText(text string) Sharded {
	key, err := idtext.ShardKey(text)
	return Sharded{s.numbers, key, err}
}

// Sharded is where the IDs of a tag come from for one key. Safe for concurrent use.
type Sharded struct {
	numbers *numbers
	key     uint64
	err     error // of the key
}

// Next is Source.Next.
func (s Sharded) Next(ctx context.Context) (int64, error) {
	p, err := s.pool()
	if err != nil {
		return 0, err
	}
	id, err := p.Next(ctx)
	if err != nil {
		return 0, err
	}
	return id | s.low(), nil
}

// Take is Source.Take.
func (s Sharded) Take(ctx context.Context, n int) ([]int64, error) {
	p, err := s.pool()
	if err != nil {
		return nil, err
	}
	ids, err := (&Source{buffer: p}).Take(ctx, n)
	for i := range ids {
		ids[i] |= s.low()
	}
	return ids, err
}

// pool is the buffer, unless there is none.
func (s Sharded) pool() (*hold.Pool, error) {
	switch {
	case s.err != nil:
		return nil, fmt.Errorf("shardid: %w", s.err)
	case s.numbers == nil:
		return nil, errors.New("shardid: ask a Client.Segment for the IDs of a key: others have no shard bits")
	}
	if p := s.numbers.pool.Load(); p != nil {
		return p, nil
	}
	return s.numbers.open(), nil
}

// low are the bits of the key, of which the answer that filled the buffer has said how many there are.
func (s Sharded) low() int64 { return int64(s.key & (1<<s.numbers.bits.Load() - 1)) }

// numbers are those of a tag with shard bits, before a key joins them.
type numbers struct {
	client *Client
	path   string
	pool   atomic.Pointer[hold.Pool] // nil before the first call
	bits   atomic.Uint32             // 0 before the first answer
}

// open makes the buffer.
func (n *numbers) open() *hold.Pool {
	n.client.mu.Lock()
	defer n.client.mu.Unlock()
	if n.pool.Load() == nil {
		n.pool.Store(n.client.addPool(fetcher{n.client, n.path + "sharded=true&", n, new(atomic.Bool)}))
	}
	return n.pool.Load()
}

// noteBits takes the shard bits of an answer, which never change.
func (n *numbers) noteBits(bits uint32) error {
	known := n.bits.Load()
	if bits < 1 || bits > idtext.MaxShardBits || known != 0 && bits != known {
		return fmt.Errorf("%d shard bits, where there were %d", bits, known)
	}
	n.bits.Store(bits)
	return nil
}

// fetcher fetches the IDs of one buffer: it is the source of its pool.
type fetcher struct {
	client  *Client
	path    string       // to which parameters are added
	numbers *numbers     // what is fetched are those; nil where it is IDs
	atLimit *atomic.Bool // the last request heard that none is left
}

// More implements hold.Source with one request, and others where fewer are left below a limit. Each is made at several
// replicas until one answers or Options.Timeout has passed, so that no error of it is worth a wait.
func (f fetcher) More(ctx context.Context, n int64) (ranges []hold.Run, err error) {
	count := int(min(n, maxBatch))
	if f.atLimit.Load() {
		count = 1 // is enough to hear of a new limit
	}
	q := question{method: http.MethodPost, path: f.path + "ranges=true&count=" + strconv.Itoa(count)}
	err = f.client.askNow(ctx, q, func(a answer) (err error) {
		ranges, err = a.ranges(count)
		if err == nil && f.numbers != nil {
			err = f.numbers.noteBits(a.ShardBits)
		}
		return err
	})
	var refused *Error
	isLimit := errors.As(err, &refused) && refused.Code == CodeLimit
	if isLimit && count > 1 { // fewer may be left
		return f.More(ctx, int64(count/2))
	}
	f.atLimit.Store(isLimit)
	return ranges, err
}

// addSource makes a source whose buffer is fetched from a path. Callers hold mu.
func (c *Client) addSource(path string) *Source {
	return &Source{buffer: c.addPool(fetcher{client: c, path: path, atLimit: new(atomic.Bool)})}
}

// addPool makes a buffer. Callers hold mu.
func (c *Client) addPool(source fetcher) *hold.Pool {
	p := hold.New(hold.Options{
		Source: source, Lasts: heldFor, Low: fetchBelow,
		// The caller for whom IDs are fetched takes one more.
		Least: min(firstFetch, int64(c.opts.MaxHeld)) - 1, Most: int64(c.opts.MaxHeld) - 1,
		// A caller waits for a fetch, whose error it gets. It may have begun while another was under way.
		Timeout: min(c.opts.Timeout, math.MaxInt64/4) * 4, Empty: ErrTimeout,
		Final: func(error) bool { return true }, Go: c.start,
	})
	if c.closed {
		p.Close(ErrClosed)
	} else {
		c.buffers = append(c.buffers, p)
	}
	return p
}

// start runs a function on another goroutine, which Close waits for; false: the client is closed.
func (c *Client) start(run func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(run)
	}
	return !c.closed
}

// Queue is where the IDs of an app come from: a Source for each of its 64 shards. Safe for
// concurrent use.
type Queue struct {
	client *Client
	app    uint8
	shards [idtext.Shards]atomic.Pointer[Source]
}

// Next is one ID of the shard of gatePass, as Source.Next.
func (q *Queue) Next(ctx context.Context, gatePass string) (int64, error) {
	s, err := q.source(gatePass)
	if err != nil {
		return 0, err
	}
	return s.Next(ctx)
}

// Take is n IDs of the shard of gatePass, as Source.Take.
func (q *Queue) Take(ctx context.Context, gatePass string, n int) ([]int64, error) {
	s, err := q.source(gatePass)
	if err != nil {
		return nil, err
	}
	return s.Take(ctx, n)
}

// Shard is where the IDs of a shard come from, 0…63; of a higher one, its remainder by 64. Keep it, or ask again: it is
// always the same.
func (q *Queue) Shard(n uint64) *Source {
	n %= idtext.Shards
	return q.shard(uint8(n), "shard="+strconv.FormatUint(n, 10))
}

func (q *Queue) source(gatePass string) (*Source, error) {
	n, err := idtext.CheckedShardOf(gatePass)
	if err != nil {
		return nil, fmt.Errorf("shardid: %w", err)
	}
	if s := q.shards[n].Load(); s != nil {
		return s, nil
	}
	return q.shard(n, "gatePass="+url.QueryEscape(gatePass)), nil // any gatePass of the shard gets its IDs
}

// shard is the source of a shard, for which a parameter asks.
func (q *Queue) shard(n uint8, parameter string) *Source {
	shard := &q.shards[n]
	if s := shard.Load(); s != nil {
		return s
	}
	q.client.mu.Lock()
	defer q.client.mu.Unlock()
	if shard.Load() == nil {
		shard.Store(q.client.addSource("/v1/queue/" + strconv.Itoa(int(q.app)) + "/ids?" + parameter + "&"))
	}
	return shard.Load()
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

// Take is count texts, 1 to MaxNumbers, from one request.
func (n *Number) Take(ctx context.Context, count int) (texts []string, err error) {
	if count < 1 || count > maxBatch {
		return nil, fmt.Errorf("shardid: %d numbers: ask for 1 to %d", count, maxBatch)
	}
	err = n.client.askNow(ctx, question{method: http.MethodPost, path: n.path + strconv.Itoa(count)},
		func(a answer) error {
			if texts = a.IDs; len(texts) != count {
				return fmt.Errorf("%d IDs, not %d", len(texts), count)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return texts, nil
}

// Sequence is where the numbers of a space come from, which rise for each key. Safe for concurrent
// use.
type Sequence struct {
	client *Client
	path   string
}

// Next is the next number of a key, any 1 to 256 bytes: whoever asks after it was returned gets a
// higher one, from any replica. Errors are those of Source.Next. A call that fails may leave out
// numbers.
func (s *Sequence) Next(ctx context.Context, key string) (int64, error) {
	numbers, err := s.Take(ctx, key, 1)
	if err != nil {
		return 0, err
	}
	return numbers[0], nil
}

// maxRegions is how far apart two numbers are at most: as far as there are regions, 2^6 of them.
const maxRegions = 64

// Take is the next n numbers of a key, 1 to MaxNumbers, from one request. No other number of this region
// lies between them.
func (s *Sequence) Take(ctx context.Context, key string, n int) (numbers []int64, err error) {
	if n < 1 || n > MaxNumbers {
		return nil, fmt.Errorf("shardid: %d numbers: ask for 1 to %d", n, MaxNumbers)
	}
	form := url.Values{"key": {key}, "count": {strconv.Itoa(n)}, "ranges": {"true"}}
	q := question{method: http.MethodPost, path: s.path + "ids", form: form.Encode()}
	err = s.client.askNow(ctx, q, func(a answer) error {
		ranges, err := a.ranges(n)
		if err != nil {
			return err
		}
		if len(ranges) != 1 || ranges[0].Stride > maxRegions {
			return errors.New("numbers that do not follow each other")
		}
		numbers = make([]int64, n)
		for i := range numbers {
			numbers[i] = ranges[0].First + int64(i)*ranges[0].Stride
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return numbers, nil
}

// Current is how far a key has come: at or above every number that was issued for it, below every
// one to come, and 0 before the first. It issues nothing.
func (s *Sequence) Current(ctx context.Context, key string) (current int64, err error) {
	q := question{method: http.MethodGet, path: s.path + "current?key=" + url.QueryEscape(key)}
	err = s.client.askNow(ctx, q, func(a answer) error {
		if a.Current == nil || *a.Current < 0 {
			return errors.New("nothing about how far the key has come")
		}
		current = *a.Current
		return nil
	})
	return current, err
}
