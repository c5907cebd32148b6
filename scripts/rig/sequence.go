package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/redis/go-redis/v9"
)

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
	a := o.Ask(by, key)
	var first, last int64
	var err error
	if n == 0 {
		last, err = s.Current(ctx, key)
	} else {
		first, last, err = s.Take(ctx, key, n)
	}
	if err == nil && n > 0 && last-first+1 != int64(n) {
		err = fmt.Errorf("%w: %d to %d", errNonsense, first, last)
	}
	if errors.Is(err, errNonsense) {
		o.Complain("%s, asked for %d numbers of %q: %v", by, n, key, err)
	}
	switch {
	case err != nil:
		a.Lost()
	case n == 0:
		a.Is(last)
	default:
		a.Got(first, last)
	}
	return err
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
