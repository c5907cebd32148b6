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
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxNumber is the highest number of a key: JavaScript tells no higher one from the next.
const maxNumber = 1<<53 - 1

// call is a question to a sequence, with its answer.
type call struct {
	by, key         string
	asked, answered time.Time
	isCurrent       bool  // it asked how far the key has come: up to last
	first, last     int64 // else the numbers that it got
}

func (c call) String() string {
	what := fmt.Sprintf("%d to %d", c.first, c.last)
	if c.isCurrent {
		what = fmt.Sprintf("current %d", c.last)
	}
	const clock = "15:04:05.000000"
	return fmt.Sprintf("%s of %q by %s from %s to %s",
		what, c.key, c.by, c.asked.Format(clock), c.answered.Format(clock))
}

// low and high are the places that an answer takes: 2n is that of number n, and 2n+1, behind
// it, that of whoever was told that the key has come to n.
func (c call) low() int64 {
	if c.isCurrent {
		return 2*c.last + 1
	}
	return 2 * c.first
}

func (c call) high() int64 {
	if c.isCurrent {
		return 2*c.last + 1
	}
	return 2 * c.last
}

// Order checks that the numbers of each key rise, whoever is asked: an answer lies behind all
// that were answered before it was asked for, and no number comes twice. A call without an answer may
// have issued anything.
//
// It needs what a Ledger needs. The zero value is ready; it is safe for concurrent use.
type Order struct {
	Ledger // a list for each key

	keys map[string]*course
}

// course is how a key has gone.
type course struct {
	list    List
	highest call // the answer that took the highest place
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
func (o *Order) Draw(ctx context.Context, by string, s Sequence, key string, n int) (err error) {
	k, before := o.course(key)
	c := call{by: by, key: key, isCurrent: n == 0, asked: time.Now()}
	var isPossible bool
	if c.isCurrent {
		c.last, err = s.Current(ctx, key)
		isPossible = c.last >= 0
	} else {
		c.first, c.last, err = s.Take(ctx, key, n)
		isPossible = c.first >= 1 && c.last-c.first+1 == int64(n)
	}
	c.answered = time.Now()
	if err == nil && (!isPossible || c.last > maxNumber) {
		err = fmt.Errorf("%w: %v", errNonsense, c)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.Is(err, errNonsense):
		o.blame("%s, asked for %d numbers of %q: %v", by, n, key, err)
	case err == nil:
		o.noteAnswer(k, before, c)
	}
	return err
}

// course is how a key has gone, and its highest answer so far.
func (o *Order) course(key string) (k *course, highest call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[string]*course{}
	}
	if k = o.keys[key]; k == nil {
		k = &course{list: List{App: -1, Shard: int64(len(o.keys))}}
		o.keys[key] = k
	}
	return k, k.highest
}

// noteAnswer holds an answer against those that came before it was asked for. Callers hold mu.
func (o *Order) noteAnswer(k *course, before, c call) {
	if c.low() < before.high() {
		o.blame("BACK: %v, and before it %v", c, before)
	}
	if c.high() > k.highest.high() {
		k.highest = c
	}
	if !c.isCurrent {
		for n := c.first; n <= c.last; n++ {
			o.note(c.by+", key "+c.key, k.list, n)
		}
	}
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
