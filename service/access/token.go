package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// Modes are ways to make IDs, as a set.
type Modes uint8

// The modes.
const (
	Queue Modes = 1 << iota
	Segment
	Snowflake
	UID
	Lease
	Sequence
)

// modeNames are the modes as files name them, in the order of their bits.
func modeNames() [6]string {
	return [6]string{"queue", "segment", "snowflake", "uid", "lease", "sequence"}
}

// String names the modes of the set.
func (m Modes) String() string {
	var names []string
	for i, name := range modeNames() {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// digest is the SHA-256 of a token.
type digest [sha256.Size]byte

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
	name     string      // tells tokens apart for people
	sum      digest      // of the token, which is known to its bearer alone
	may      []string    // the grants, as the file has them
	admin    bool        // the token is for administration
	modes    Modes       // those of which it may have something
	of       [6][]string // what, by the bit of the mode, such as tags; * at the end stands for any end
	expires  time.Time   // from when on it is refused; zero: never
	requests *limit      // those of a second; nil: as many as it likes
	ids      *limit      // likewise
}

// grantForms says how to write what a token may have.
const grantForms = `write ["queue:1", "segment:orders*", "lease:carts", "sequence:chat*", snowflake, uid] ` +
	`or [admin]; ` +
	`* at the end stands for any end, and queue:* for every app`

// grant adds what an item of the list may stands for; false for one that stands for nothing.
func (t *Token) grant(item string) bool {
	t.may = append(t.may, item)
	mode, what, of := strings.Cut(item, ":")
	modes := modeNames()
	i := slices.Index(modes[:], mode)
	if mode == "admin" && !of {
		t.admin = true
		return true
	}
	if i < 0 {
		return false
	}
	t.modes |= 1 << i
	check := map[Modes]func(string) error{
		Queue: checkApp, Segment: model.CheckTag, Lease: model.CheckName, Sequence: model.CheckSpace,
	}[1<<i]
	if check == nil { // there is but one thing of the mode
		return !of
	}
	t.of[i] = append(t.of[i], what)
	isBeginning := strings.HasSuffix(what, "*") && (mode != "queue" || what == "*")
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
	return t.name
}

// Expired says whether the token is no longer good.
func (t *Token) Expired(now time.Time) bool { return !t.expires.IsZero() && !now.Before(t.expires) }

// Admin is nil for a token that may administrate. Errors: model.ErrForbidden.
func (t *Token) Admin() error {
	if t == nil || t.admin {
		return nil
	}
	return t.forbidden("administrate: that takes a token that may admin")
}

// Mode is nil for a token that may have something of a mode. Errors: model.ErrForbidden.
func (t *Token) Mode(m Modes) error {
	if t == nil || t.modes&m != 0 {
		return nil
	}
	return t.forbidden("have IDs of the mode " + m.String())
}

// App is nil for a token that may have IDs of an app. Errors: model.ErrForbidden.
func (t *Token) App(app int) error {
	if t == nil {
		return nil
	}
	return t.Of(Queue, strconv.Itoa(app))
}

// Of is nil for a token that may have something of a mode: an app by its digits, a tag, a name of worker IDs or a
// space of sequences. Errors: model.ErrForbidden.
func (t *Token) Of(m Modes, what string) error {
	if t == nil {
		return nil
	}
	for _, pattern := range t.of[bits.TrailingZeros8(uint8(m))] {
		beginning, isBeginning := strings.CutSuffix(pattern, "*")
		if pattern == what || isBeginning && strings.HasPrefix(what, beginning) {
			return nil
		}
	}
	return t.forbidden(fmt.Sprintf(map[Modes]string{
		Queue: "have IDs of app %s", Segment: "have IDs of tag %q",
		Lease: "lease worker IDs of the name %q", Sequence: "have numbers of the space %q",
	}[m], what))
}

func (t *Token) forbidden(what string) error {
	return fmt.Errorf("%w: token %s may not %s", model.ErrForbidden, t.name, what)
}

// View is a token for people.
type View struct {
	Name         string    `json:"name"`
	May          []string  `json:"may"` // what it may have beside monitoring
	Rate         float64   `json:"rate,omitempty"`
	IDsPerSecond int64     `json:"ids_per_second,omitempty"` // 0: no limit, as of the rate
	Expires      time.Time `json:"expires,omitzero"`         // zero: never
}

// View shows what the token may do, by the keys of the file.
func (t *Token) View() View {
	v := View{Name: t.name, May: t.may, Expires: t.expires}
	if t.requests != nil {
		v.Rate = t.requests.perSecond()
	}
	if t.ids != nil {
		v.IDsPerSecond = int64(t.ids.perSecond())
	}
	return v
}
