package access

import (
	"fmt"
	"math"
	"sync"
	"time"

	"shardid/model"
)

// refusalTakes is how long a refusal is held back. Without it who asks most often, as a
// pipeline does, would leave the others nothing of their token's rate.
const refusalTakes = 2 * time.Millisecond

// limits are the rate and the quota of a token, and what is left of them. Safe for
// concurrent use: what is refused changes nothing.
type limits struct {
	mu       sync.Mutex
	requests bucket
	ids      bucket
	now      func() time.Time
}

// bucket fills by so much a second up to a most. One that fills by nothing is no limit.
// golang.org/x/time/rate is not used: it cannot count more than its burst at once, as a run
// needs, and its clock goes back with that of a caller who was held up.
type bucket struct {
	perSecond, most, left float64
	at                    time.Time // of left; zero: full
}

func (b *bucket) fill(now time.Time) {
	switch since := now.Sub(b.at); {
	case b.at.IsZero():
		b.left, b.at = b.most, now
	case since > 0:
		b.left, b.at = min(b.most, b.left+since.Seconds()*b.perSecond), now
	}
}

// lacks is how long it takes until n can be taken: 0 for now.
func (b *bucket) lacks(n float64) time.Duration {
	if b.perSecond == 0 || b.left >= n {
		return 0
	}
	seconds := min((n-b.left)/b.perSecond, math.MaxInt32)
	return max(1, time.Duration(seconds*float64(time.Second)))
}

// same says whether another bucket fills alike.
func (b *bucket) same(other *bucket) bool {
	return b.perSecond == other.perSecond && b.most == other.most
}

// become takes over the bounds of other limits, and keeps what is used of those that stay: a
// file that was written again gives nothing back.
func (l *limits) become(other *limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.requests.same(&other.requests) {
		l.requests = other.requests
	}
	if !l.ids.same(&other.ids) {
		l.ids = other.ids
	}
}

// TooManyError is model.ErrTooMany with the time after which to try again.
type TooManyError struct {
	After  time.Duration
	reason string
}

// Error implements error.
func (e *TooManyError) Error() string { return fmt.Sprintf("%v: %s", model.ErrTooMany, e.reason) }

// Unwrap makes it model.ErrTooMany.
func (e *TooManyError) Unwrap() error { return model.ErrTooMany }

// request uses one request of the token's rate. Errors: *TooManyError.
func (t *Token) request() error { return held(t.takeRequest()) }

// Take uses up n IDs of the token's quota, all or none. Errors: *TooManyError.
func (t *Token) Take(n int) error { return held(t.takeIDs(n)) }

func held(err error) error {
	if err != nil {
		time.Sleep(refusalTakes)
	}
	return err
}

func (t *Token) takeRequest() error {
	l := t.limits
	if l == nil {
		return nil
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.fill(now)
	if after := l.requests.lacks(1); after > 0 {
		return &TooManyError{after, "the rate of token " + t.name + " is used up: nothing was done, slow down"}
	}
	l.requests.left-- // unused without a rate
	return nil
}

func (t *Token) takeIDs(n int) error {
	if t == nil || t.limits == nil {
		return nil
	}
	l := t.limits
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids.fill(now)
	if after := l.ids.lacks(float64(n)); after > 0 {
		most, left := int64(l.ids.most), max(0, int64(l.ids.left))
		advice := "ask for fewer, or again after " + (after + time.Second - 1).Truncate(time.Second).String()
		if int64(n) > most {
			advice = fmt.Sprintf("ask for %d at most", most)
		}
		return &TooManyError{after, fmt.Sprintf("the quota ids_per_second: %d of token %s has %d left, "+
			"and %d were asked for: nothing was issued, %s", most, t.name, left, n, advice)}
	}
	l.ids.left -= float64(n) // unused without a quota
	return nil
}

// Charge counts n IDs that were issued beside those of Take, however many are left.
func (t *Token) Charge(n int64) {
	if t == nil || t.limits == nil {
		return
	}
	l := t.limits
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids.fill(now)
	l.ids.left -= float64(n)
}
