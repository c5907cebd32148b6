package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardid/model"
)

// prefix lets people, and programs that look for leaked secrets, recognize a token.
const prefix = "shardid_"

// Generate makes a token of 32 random bytes, and its SHA-256 in hex.
func Generate() (token, sum string) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	token = prefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
}

// Token is what the bearer of a token may do. nil, for a caller that needs none, may do
// everything. Safe for concurrent use; only what is left of its limits changes.
type Token struct {
	entry
	sum      Credential              // of the token, which is known to its bearer alone
	admin    bool                    // the token is for administration
	of       map[model.Mode][]string // what it may have of each mode, such as tags; * at the end stands for any end
	requests *limit                  // those of a second; nil: as many as it likes
	ids      *limit                  // likewise
}

// entry is a token as a file has it. What may be left out is nil then.
type entry struct {
	Name         string     `yaml:"name"`           // tells tokens apart for people
	SHA256       string     `yaml:"sha256"`         // of the token, in hex
	May          []string   `yaml:"may"`            // must be there, and may be empty: every token may read monitoring
	Rate         *float64   `yaml:"rate"`           // requests a second, and at once
	IDsPerSecond *int64     `yaml:"ids_per_second"` // IDs a second; a larger batch is paid for later
	Expires      *time.Time `yaml:"expires"`        // a day stands for its midnight UTC
}

// grantForms says how to write what a token may have.
const grantForms = `write ["queue:1", "segment:orders*", "lease:carts", "sequence:chat*", snowflake, uid] ` +
	`or [admin]; ` +
	`* at the end stands for any end, and queue:* for every app`

// grant adds what an item of the list may stands for; false for one that stands for nothing.
func (t *Token) grant(item string) bool {
	mode, what, of := strings.Cut(item, ":")
	m := model.ModeNamed(mode)
	if mode == "admin" && !of {
		t.admin = true
		return true
	}
	if m == 0 {
		return false
	}
	t.of[m] = append(t.of[m], what)
	check := map[model.Mode]func(string) error{
		model.ModeQueue: checkApp, model.ModeSegment: model.CheckTag, model.ModeLease: model.CheckName,
		model.ModeSequence: model.CheckSpace,
	}[m]
	if check == nil { // there is but one thing of the mode
		return !of
	}
	isBeginning := strings.HasSuffix(what, "*") && (m != model.ModeQueue || what == "*")
	return isBeginning || check(what) == nil
}

func checkApp(digits string) error {
	if app, err := strconv.ParseUint(digits, 10, 8); err != nil || digits != strconv.FormatUint(app, 10) {
		return fmt.Errorf("%w: an app is a number in 0…255", model.ErrInvalidArgument)
	}
	return nil
}

// Name tells tokens apart for people; it is never the token itself. "" for nil.
func (t *Token) Name() string {
	if t == nil {
		return ""
	}
	return t.entry.Name
}

// Expired says whether the token is no longer good.
func (t *Token) Expired(now time.Time) bool { return t.Expires != nil && !now.Before(*t.Expires) }

// Admin is nil for a token that may administrate. Errors: model.ErrForbidden.
func (t *Token) Admin() error {
	if t == nil || t.admin {
		return nil
	}
	return t.forbidden("admin")
}

// Mode is nil for a token that may have something of a mode. Errors: model.ErrForbidden.
func (t *Token) Mode(m model.Mode) error {
	if t == nil || t.of[m] != nil {
		return nil
	}
	return t.forbidden("have IDs of the mode " + m.String())
}

// App is nil for a token that may have IDs of an app. Errors: model.ErrForbidden.
func (t *Token) App(app int) error {
	if t == nil {
		return nil
	}
	return t.Of(model.ModeQueue, strconv.Itoa(app))
}

// Of is nil for a token that may have something of a mode: an app by its digits, a tag, a name of worker IDs or a
// space of sequences. Errors: model.ErrForbidden.
func (t *Token) Of(m model.Mode, what string) error {
	if t == nil {
		return nil
	}
	for _, pattern := range t.of[m] {
		beginning, isBeginning := strings.CutSuffix(pattern, "*")
		if pattern == what || isBeginning && strings.HasPrefix(what, beginning) {
			return nil
		}
	}
	return t.forbidden(fmt.Sprintf(map[model.Mode]string{
		model.ModeQueue: "have IDs of app %s", model.ModeSegment: "have IDs of tag %q",
		model.ModeLease: "lease worker IDs of the name %q", model.ModeSequence: "have numbers of the space %q",
	}[m], what))
}

func (t *Token) forbidden(what string) error {
	return fmt.Errorf("use a token that may %s: %w: token %s may not", what, model.ErrForbidden, t.Name())
}

// limit allows so much a second, and as much at once. Clients choose their batches, so a larger one is allowed when all
// of a second is left, and later seconds pay for it. Safe for concurrent use: what is refused changes nothing.
type limit struct {
	perSecond float64
	now       func() time.Time
	run       chan struct{} // has one while a run is under way

	mu   sync.Mutex // guards what follows
	left float64    // below 0 after one that was more than a second's
	then time.Time  // when left was so much; zero before the first use
}

func newLimit(perSecond float64) *limit {
	return &limit{perSecond: perSecond, now: time.Now, run: make(chan struct{}, 1)}
}

// fill adds what has come since then. Callers hold mu.
func (l *limit) fill() {
	now := l.now()
	l.left = min(l.left+now.Sub(l.then).Seconds()*l.perSecond, math.Ceil(l.perSecond))
	l.then = now
}

// take takes n, after which after is 0, or says how many there are, and after which time it can.
func (l *limit) take(n int) (left int64, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fill()
	seconds := min((min(float64(n), math.Ceil(l.perSecond))-l.left)/l.perSecond, math.MaxInt32)
	if after = time.Duration(seconds * float64(time.Second)); after > 0 {
		return max(0, int64(l.left)), after
	}
	l.left -= float64(n)
	return 0, 0
}

// TooManyError is model.ErrTooMany with the time after which to try again.
type TooManyError struct {
	After  time.Duration
	do     model.Remedy
	reason string
}

// Error implements error.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.do, model.ErrTooMany, e.reason)
}

// Unwrap makes it model.ErrTooMany, with what to do.
func (e *TooManyError) Unwrap() []error { return []error{e.do, model.ErrTooMany} }

// request uses one request of the token's rate. Errors: *TooManyError.
func (t *Token) request() error {
	if t.requests == nil {
		return nil
	}
	if _, after := t.requests.take(1); after > 0 {
		return &TooManyError{after, "slow down", "nothing was done: the rate of token " + t.Name() + " is used up"}
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
	most := int64(t.ids.perSecond)
	do := model.Do("ask for fewer, or again after %v", (after + time.Second - 1).Truncate(time.Second))
	return &TooManyError{after, do, fmt.Sprintf("nothing was issued: the quota ids_per_second: %d of token %s has %d "+
		"left, and %d were asked for", most, t.Name(), left, n)}
}

// Refund gives back what Take took of n IDs beyond a second's, as none was issued: a request that fails costs no more.
func (t *Token) Refund(n int) {
	if t != nil && t.ids != nil {
		t.Charge(-max(0, int64(n)-int64(t.ids.perSecond)))
	}
}

// Charge counts n IDs that were issued beside those of Take, however many are left.
func (t *Token) Charge(n int64) {
	if t == nil || t.ids == nil {
		return
	}
	t.ids.mu.Lock()
	defer t.ids.mu.Unlock()
	t.ids.left -= float64(n)
}

// BeginRun waits until no other run of the token is under way, whose length is not charged yet: each would be granted
// for the last ID. Call end after Charge. Errors: ctx's.
func (t *Token) BeginRun(ctx context.Context) (end func(), err error) {
	if t == nil || t.ids == nil {
		return func() {}, nil
	}
	select {
	case t.ids.run <- struct{}{}:
		return func() { <-t.ids.run }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
