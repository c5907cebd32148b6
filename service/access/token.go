package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
)

// Roles of a token.
const (
	RoleAdmin = "admin" // administration
	RoleGet   = "get"   // IDs
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
// everything. Safe for concurrent use; only the use of its rate and quota changes.
type Token struct {
	name    string
	sum     digest
	role    string
	modes   Modes
	apps    [model.Apps / 64]uint64 // a bit for each
	tags    patterns
	names   patterns  // of worker IDs
	spaces  patterns  // of sequences
	expires time.Time // zero: never
	limits  *limits   // nil: none
}

// patterns are what a token is for: these, and what begins with one of the prefixes.
type patterns struct {
	exact    map[string]bool
	prefixes []string
}

func (p patterns) match(what string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(what, prefix) }
	return p.exact[what] || slices.ContainsFunc(p.prefixes, begins)
}

// String lists them as files do.
func (p patterns) String() string {
	all := slices.Sorted(maps.Keys(p.exact))
	for _, prefix := range p.prefixes {
		all = append(all, prefix+"*")
	}
	return strings.Join(all, ", ")
}

// add adds what an item of a list stands for; false for one that check refuses.
func (p *patterns) add(item string, check func(string) error) bool {
	if prefix, ok := strings.CutSuffix(item, "*"); ok {
		p.prefixes = append(p.prefixes, prefix)
		return true
	}
	if p.exact == nil {
		p.exact = map[string]bool{}
	}
	p.exact[item] = true
	return check(item) == nil
}

// listed is what a token of a mode is for, as patterns.
type listed struct {
	key   string // in the file
	what  string
	mode  Modes
	of    *patterns
	check func(string) error // of an item without a star
}

// lists are all that a token has patterns for.
func (t *Token) lists() [3]listed {
	return [3]listed{
		{"tags", "tags", Segment, &t.tags, model.CheckTag},
		{"names", "names of worker IDs", Lease, &t.names, model.CheckName},
		{"spaces", "spaces of sequences", Sequence, &t.spaces, model.CheckSpace},
	}
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
	if t == nil || t.role == RoleAdmin {
		return nil
	}
	return t.forbidden("administrate: that takes a token of the role admin")
}

// Mode is nil for a token that may have IDs of a mode. Errors: model.ErrForbidden.
func (t *Token) Mode(m Modes) error {
	if t == nil || t.modes&m != 0 {
		return nil
	}
	return t.forbidden("have IDs of the mode " + m.String())
}

// App is nil for a token that may have IDs of an app. Errors: model.ErrForbidden.
func (t *Token) App(app int) error {
	if t == nil || t.apps[app/64]&(1<<(app%64)) != 0 {
		return nil
	}
	return t.forbidden(fmt.Sprintf("have IDs of app %d", app))
}

// Tag is nil for a token that may have IDs of a tag. Errors: model.ErrForbidden.
func (t *Token) Tag(tag string) error {
	if t == nil || t.tags.match(tag) {
		return nil
	}
	return t.forbidden(fmt.Sprintf("have IDs of tag %q", tag))
}

// Lease is nil for a token that may lease worker IDs of a name. Errors: model.ErrForbidden.
func (t *Token) Lease(name string) error {
	if t == nil || t.names.match(name) {
		return nil
	}
	return t.forbidden(fmt.Sprintf("lease worker IDs of the name %q", name))
}

// Space is nil for a token that may have numbers of a space. Errors: model.ErrForbidden.
func (t *Token) Space(space string) error {
	if t == nil || t.spaces.match(space) {
		return nil
	}
	return t.forbidden(fmt.Sprintf("have numbers of the space %q", space))
}

func (t *Token) forbidden(what string) error {
	return fmt.Errorf("%w: token %s may not %s", model.ErrForbidden, t.name, what)
}

// View is a token for people.
type View struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	May     string    `json:"may"` // what it may do beside monitoring
	Rate    string    `json:"rate"`
	Quota   string    `json:"quota"`            // of IDs
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// View shows what the token may do.
func (t *Token) View() View {
	const none = "no limit"
	v := View{Name: t.name, Role: t.role, May: t.may(), Rate: none, Quota: none, Expires: t.expires}
	if l := t.limits; l != nil {
		if l.ids.perSecond > 0 {
			v.Quota = fmt.Sprintf("%.0f IDs a second", l.ids.perSecond)
		}
		if l.requests.perSecond > 0 {
			v.Rate = fmt.Sprintf("%s a second, %.0f at once", strconv.FormatFloat(l.requests.perSecond, 'f', -1, 64), l.requests.most)
		}
	}
	return v
}

func (t *Token) may() string {
	if t.role == RoleAdmin {
		return "administration"
	}
	var all []string
	for i, name := range modeNames() {
		switch m := Modes(1 << i); {
		case t.modes&m == 0:
			continue
		case m == Queue:
			var apps []string
			for app := range model.Apps {
				if t.App(app) == nil {
					apps = append(apps, strconv.Itoa(app))
				}
			}
			if len(apps) == model.Apps {
				apps = []string{"*"}
			}
			name += " of apps " + strings.Join(apps, ", ")
		}
		for _, l := range t.lists() {
			if l.mode == 1<<i {
				name += " of " + l.key + " " + l.of.String()
			}
		}
		all = append(all, name)
	}
	if all == nil {
		return "nothing but monitoring"
	}
	return strings.Join(all, "; ")
}
