package rig

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxNumber is the highest number of a key: JavaScript tells no higher one from the next.
const maxNumber = 1<<53 - 1

// Call is a question to a sequence, with its answer.
type Call struct {
	By, Key         string
	Asked, Answered time.Duration // since the first call, all different
	Current         bool          // it asked how far the key has come: up to Last
	First, Last     int64         // else the numbers that it got
}

func (c *Call) String() string {
	what := fmt.Sprintf("%d to %d", c.First, c.Last)
	if c.Current {
		what = fmt.Sprintf("current %d", c.Last)
	}
	return fmt.Sprintf("%s of %q by %s from %.6f s to %.6f s",
		what, c.Key, c.By, c.Asked.Seconds(), c.Answered.Seconds())
}

// low and high are the places that an answer takes: 2n is that of number n, and 2n+1, behind
// it, that of whoever was told that the key has come to n.
func (c *Call) low() int64 {
	if c.Current {
		return 2*c.Last + 1
	}
	return 2 * c.First
}

func (c *Call) high() int64 {
	if c.Current {
		return 2*c.Last + 1
	}
	return 2 * c.Last
}

// Order checks that the numbers of each key rise, whoever is asked: an answer lies behind all
// that were answered before it was asked for, no number comes twice, and nobody is told of a
// number in the middle of those that another one gets at once. That is all that a register
// that rises promises. A call without an answer may have issued anything.
//
// It needs what a Ledger needs, and the calls in flight. The zero value is ready; it is safe
// for concurrent use.
type Order struct {
	Ledger // a list for each key

	keys  map[string]*course
	begun time.Time
	now   time.Duration
}

// course is how a key has gone.
type course struct {
	list    List
	highest Call      // the answer that took the highest place
	flying  []*asking // in the order in which they were asked
	wide    []Call    // answers that one in flight could still meet, but for single numbers
}

// asking is a call in flight.
type asking struct {
	call   Call
	course *course
	after  Call // its answer has to lie behind this one
}

// ask begins a call, before its request is sent.
func (o *Order) ask(by, key string) *asking {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.keys[key]
	if k == nil {
		if o.keys == nil {
			o.keys, o.begun = map[string]*course{}, time.Now()
		}
		k = &course{list: List{App: -1, Shard: int64(len(o.keys))}}
		o.keys[key] = k
	}
	a := &asking{call: Call{By: by, Key: key, Asked: o.tick()}, course: k, after: k.highest}
	k.flying = append(k.flying, a)
	return a
}

// tick is the time of an event. Callers hold mu.
func (o *Order) tick() time.Duration {
	o.now = max(o.now+1, time.Since(o.begun))
	return o.now
}

// land ends a call.
func (o *Order) land(a *asking, answered bool) {
	k, c := a.course, &a.call
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.Answered = o.tick(); answered && o.possible(c) {
		o.compare(a)
		if c.high() > k.highest.high() {
			k.highest = *c
		}
		if c.Current || c.Last > c.First {
			k.wide = append(k.wide, *c)
		}
	}
	i := slices.Index(k.flying, a)
	k.flying = slices.Delete(k.flying, i, i+1)
	k.forget()
}

// possible refuses what cannot be an answer. Callers hold mu.
func (o *Order) possible(c *Call) bool {
	lowest := int64(1)
	if c.Current {
		lowest = 0
	}
	if c.Last > maxNumber || c.Last < lowest || c.First > c.Last || !c.Current && c.First < 1 {
		o.blame("no answer: %v", c)
		return false
	}
	return true
}

// compare holds an answer against all others. Callers hold mu.
func (o *Order) compare(a *asking) {
	c := &a.call
	if c.low() < a.after.high() {
		o.blame("BACK: %v, and before it %v", c, &a.after)
	}
	for i := range a.course.wide {
		if w := &a.course.wide[i]; c.Current != w.Current && c.low() <= w.high() && w.low() <= c.high() {
			o.blame("WITHIN: %v and %v", c, w)
		}
	}
	if !c.Current {
		for n := c.First; n <= c.Last; n++ {
			o.note(c.By+", key "+c.Key, a.course.list, n)
		}
	}
}

// forget drops what a call in flight can meet only if it goes back, which is noticed. The one
// that was asked first has the least to lie behind.
func (k *course) forget() {
	floor := k.highest.high()
	if len(k.flying) > 0 {
		floor = k.flying[0].after.high()
	}
	k.wide = slices.DeleteFunc(k.wide, func(c Call) bool { return c.high() <= floor })
}

// Sequence gives numbers of keys.
type Sequence interface {
	// Take gets n numbers without a gap.
	Take(ctx context.Context, key string, n int) (first, last int64, err error)
	// Current is how far a key has come.
	Current(ctx context.Context, key string) (int64, error)
}

// errNonsense is an answer that is none.
var errNonsense = errors.New("nonsense")

// Draw asks s for n numbers of a key or, where n is 0, how far it has come, and checks what is
// answered. The error says why nothing was.
func (o *Order) Draw(ctx context.Context, by string, s Sequence, key string, n int) error {
	a := o.ask(by, key)
	c := &a.call
	c.Current = n == 0
	var err error
	if c.Current {
		c.Last, err = s.Current(ctx, key)
	} else {
		c.First, c.Last, err = s.Take(ctx, key, n)
	}
	if err == nil && n > 0 && c.Last-c.First+1 != int64(n) {
		err = fmt.Errorf("%w: %d to %d", errNonsense, c.First, c.Last)
	}
	if errors.Is(err, errNonsense) {
		o.Complain("%s, asked for %d numbers of %q: %v", by, n, key, err)
	}
	o.land(a, err == nil)
	return err
}

// DrawAny draws some numbers of one of so many keys, a run in one of six cases, or asks how far it has come. Few keys
// get half of all.
func (o *Order) DrawAny(ctx context.Context, by string, s Sequence, rnd *rand.Rand, keys int) error {
	key, n := rnd.IntN(keys), 1
	if rnd.IntN(2) == 0 {
		key = rnd.IntN(4)
	}
	switch rnd.IntN(6) {
	case 0:
		n = 0
	case 1:
		n = 2 + rnd.IntN(40)
	}
	return o.Draw(ctx, by, s, fmt.Sprint("key", key), n)
}

// Incr counts keys in Redis, as most services do: what one would have in place of shardid.
// Redis may as well be shardid, with a Prefix that names a space.
type Incr struct {
	Redis  redis.Cmdable
	Prefix string // of the keys: "chat:", or "sequence:chat:"
}

// Take sends INCR or INCRBY.
func (i Incr) Take(ctx context.Context, key string, n int) (first, last int64, err error) {
	if n == 1 {
		last, err = i.Redis.Incr(ctx, i.Prefix+key).Result()
	} else {
		last, err = i.Redis.IncrBy(ctx, i.Prefix+key, int64(n)).Result()
	}
	return last - int64(n) + 1, last, err
}

// Current sends GET.
func (i Incr) Current(ctx context.Context, key string) (int64, error) {
	current, err := i.Redis.Get(ctx, i.Prefix+key).Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil // Redis knows no key yet
	}
	return current, err
}

// SequenceHTTP asks a replica over HTTP.
type SequenceHTTP struct {
	Client     *http.Client
	URL, Space string
}

// RefusalError is an answer of a replica that says why there is no number.
type RefusalError struct {
	Status, Code int
	Message      string
}

func (r *RefusalError) Error() string {
	return fmt.Sprintf("%d, code %d: %s", r.Status, r.Code, r.Message)
}

// Take asks for ids.
func (s SequenceHTTP) Take(ctx context.Context, key string, n int) (first, last int64, err error) {
	var got struct{ IDs []string }
	path := fmt.Sprintf("ids?key=%s&count=%d", url.QueryEscape(key), n)
	if err := s.ask(ctx, http.MethodPost, path, &got); err != nil {
		return 0, 0, err
	}
	for i, text := range got.IDs {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || i > 0 && number != last+1 {
			return 0, 0, fmt.Errorf("%w: %q is number %d of %q", errNonsense, text, i+1, got.IDs)
		}
		last = number
	}
	return last - int64(len(got.IDs)) + 1, last, nil
}

// Current asks for current.
func (s SequenceHTTP) Current(ctx context.Context, key string) (int64, error) {
	var got struct{ Current string }
	if err := s.ask(ctx, http.MethodGet, "current?key="+url.QueryEscape(key), &got); err != nil {
		return 0, err
	}
	current, err := strconv.ParseInt(got.Current, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: current %q", errNonsense, got.Current)
	}
	return current, nil
}

// ask reads a whole answer; one that breaks off tells nothing.
func (s SequenceHTTP) ask(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/v1/sequence/"+s.Space+"/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	refusal := &RefusalError{Status: resp.StatusCode}
	if err := errors.Join(json.Unmarshal(raw, into), json.Unmarshal(raw, refusal)); err != nil {
		return fmt.Errorf("%w: %d %.200q", errNonsense, resp.StatusCode, raw)
	}
	if resp.StatusCode != http.StatusOK || refusal.Code != 0 {
		return refusal
	}
	return nil
}

// Plain hands indices out as the original article's service does: it pops one at a time, and
// refills a list by one UPDATE and one RPUSH with the client's own retries, under a SETNX lock
// that everybody deletes, from rows that are only ever added to. It believes both stores.
type Plain struct {
	Redis *redis.Client
	DB    *sql.DB
}

// Key is the name of a list of the queue in Redis.
func (l List) Key() string { return fmt.Sprintf("id.gen.idList_%d_%d", l.App, l.Shard) }

// Take pops an index, by default from the left end.
func (p Plain) Take(ctx context.Context, in List, right bool) (index int64, err error) {
	pop := p.Redis.LPop
	if right {
		pop = p.Redis.RPop
	}
	for range 1000 {
		if index, err = pop(ctx, in.Key()).Int64(); errors.Is(err, redis.Nil) {
			err = p.Refill(ctx, in)
		} else if err == nil {
			return index, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, errors.New("a list stays empty")
}

// Refill deletes the lock although it may not hold it, as the article's finally.
func (p Plain) Refill(ctx context.Context, in List) error {
	lock := fmt.Sprintf("id.gen.lock_%d_%d", in.App, in.Shard)
	defer p.Redis.Del(ctx, lock)
	got, err := p.Redis.SetNX(ctx, lock, "1", time.Second).Result()
	if err != nil || !got {
		time.Sleep(5 * time.Millisecond)
		return err
	}
	last, step, err := p.allocate(ctx, in)
	if err != nil {
		return err
	}
	values := make([]any, 0, step)
	for index := last - step + 1; index <= last; index++ {
		values = append(values, index)
	}
	return p.Redis.RPush(ctx, in.Key(), values...).Err()
}

func (p Plain) allocate(ctx context.Context, in List) (last, step int64, err error) {
	tx, err := p.DB.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	const where = " WHERE app_id = ? AND shard_id = ?"
	if _, err = tx.ExecContext(ctx, "UPDATE id_alloc SET max_id = max_id + step"+where, in.App, in.Shard); err != nil {
		return 0, 0, err
	}
	row := tx.QueryRowContext(ctx, "SELECT max_id, step FROM id_alloc"+where, in.App, in.Shard)
	if err = row.Scan(&last, &step); err != nil {
		return 0, 0, err
	}
	return last, step, tx.Commit()
}
