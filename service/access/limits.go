package access

import (
	"fmt"
	"math"
	"time"

	"shardid/model"

	"golang.org/x/time/rate"
)

// limit allows so much a second, and the same at once. Safe for concurrent use: what is
// refused changes nothing.
type limit struct {
	bucket *rate.Limiter
	now    func() time.Time
}

func newLimit(perSecond float64) *limit {
	return &limit{bucket: rate.NewLimiter(rate.Limit(perSecond), int(math.Ceil(perSecond))), now: time.Now}
}

func (l *limit) perSecond() float64 { return float64(l.bucket.Limit()) }

// take takes n, after which after is 0, or says how many there are, and after which time there are n.
func (l *limit) take(n int) (left int64, after time.Duration) {
	now := l.now()
	if l.bucket.AllowN(now, n) {
		return 0, 0
	}
	tokens := l.bucket.TokensAt(now)
	seconds := min((float64(n)-tokens)/l.perSecond(), math.MaxInt32)
	return max(0, int64(tokens)), max(1, time.Duration(seconds*float64(time.Second)))
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
func (t *Token) request() error {
	if t.requests == nil {
		return nil
	}
	if _, after := t.requests.take(1); after > 0 {
		return &TooManyError{after, "the rate of token " + t.Name() + " is used up: nothing was done, slow down"}
	}
	return nil
}

// Take uses up n IDs of the token's quota, all or none. Errors: *TooManyError.
func (t *Token) Take(n int) error {
	if t == nil || t.ids == nil {
		return nil
	}
	left, after := t.ids.take(n)
	if after == 0 {
		return nil
	}
	most := int64(t.ids.perSecond())
	advice := "ask for fewer, or again after " + (after + time.Second - 1).Truncate(time.Second).String()
	if int64(n) > most {
		advice = fmt.Sprintf("ask for %d at most", most)
	}
	return &TooManyError{after, fmt.Sprintf("the quota ids_per_second: %d of token %s has %d left, "+
		"and %d were asked for: nothing was issued, %s", most, t.Name(), left, n, advice)}
}

// Charge counts n IDs that were issued beside those of Take, however many are left.
func (t *Token) Charge(n int64) {
	if t == nil || t.ids == nil {
		return
	}
	for now, most := t.ids.now(), int64(t.ids.bucket.Burst()); n > 0; n -= most {
		t.ids.bucket.ReserveN(now, int(min(n, most)))
	}
}
