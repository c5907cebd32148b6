package access

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"golang.org/x/time/rate"
)

// Keys of an entry.
const (
	keyName    = "name"
	keySum     = "sha256"
	keyRole    = "role"
	keyApps    = "apps"
	keyTags    = "tags"
	keyModes   = "modes"
	keyRate    = "rate"
	keyBurst   = "burst"
	keyExpires = "expires"
)

// maxRate is the highest rate and the largest burst, in requests a second and
// requests: more than a server answers.
const maxRate = 1_000_000

// entry is a token on its way out of a file.
type entry struct {
	document
	at    *token.Token
	token *Token
	lines map[string]*token.Token // where each key is
	rate  float64                 // 0: none
	burst int                     // 0: not given
}

// keys says how each is read, in the order in which they are documented.
func (e *entry) keys() map[string]func(ast.Node) string {
	return map[string]func(ast.Node) string{
		keyName: e.setName, keySum: e.setSum, keyRole: e.setRole, keyApps: e.setApps, keyTags: e.setTags,
		keyModes: e.setModes, keyRate: e.setRate, keyBurst: e.setBurst, keyExpires: e.setExpires,
	}
}

func (e *entry) read(node ast.Node) error {
	pairs, ok := mapping(node)
	if !ok {
		return e.fail(e.at, "", "is no token: write its keys, beginning with - name:")
	}
	keys := e.keys()
	for _, pair := range pairs {
		key := text(pair.Key)
		set, known := keys[key]
		if !known {
			return e.fail(pair.Key.GetToken(), shorten(key), "unknown key: the keys are name, sha256, role, apps, tags, modes, rate, burst and expires")
		}
		if e.lines[key] != nil {
			return e.fail(pair.Key.GetToken(), key, "is there twice: keep one")
		}
		e.lines[key] = pair.Key.GetToken()
		if problem := set(pair.Value); problem != "" {
			return e.fail(pair.Key.GetToken(), key, problem)
		}
	}
	return e.complete()
}

// complete checks what belongs together and settles what was left out.
func (e *entry) complete() error {
	for _, key := range []string{keyName, keySum, keyRole} {
		if e.lines[key] == nil {
			return e.fail(e.at, key, "is missing: every token has a name, a sha256 and a role")
		}
	}
	if e.token.role == RoleAdmin {
		return e.completeAdmin()
	}
	if e.lines[keyModes] == nil {
		e.token.modes = e.granted()
	}
	if bad := e.granted() &^ e.token.modes; bad != 0 {
		return e.fail(e.lines[keyModes], keyModes, "leaves out "+bad.String()+", of which apps or tags are given: add it, or remove those")
	}
	if bad := e.token.modes & (Queue | Segment) &^ e.granted(); bad != 0 {
		return e.fail(e.lines[keyModes], keyModes, "has "+bad.String()+" but nothing of it is given: list apps for queue and tags for segment")
	}
	return e.completeRate()
}

// granted are the modes of which something is given.
func (e *entry) granted() (m Modes) {
	if e.lines[keyApps] != nil {
		m |= Queue
	}
	if e.lines[keyTags] != nil {
		m |= Segment
	}
	return m
}

func (e *entry) completeAdmin() error {
	for _, key := range []string{keyApps, keyTags, keyModes} {
		if at := e.lines[key]; at != nil {
			return e.fail(at, key, "is for the role get: one of admin is for administration and has no IDs")
		}
	}
	return e.completeRate()
}

func (e *entry) completeRate() error {
	switch {
	case e.rate == 0 && e.burst > 0:
		return e.fail(e.lines[keyBurst], keyBurst, "needs a rate")
	case e.rate > 0:
		if e.burst == 0 {
			e.burst = int(math.Ceil(e.rate))
		}
		e.token.limiter = rate.NewLimiter(rate.Limit(e.rate), e.burst)
	}
	return nil
}

// CheckName refuses what is not 1 to 64 of letters, digits, '.', '_' and '-', and the
// name of the configuration's token. Errors: model.ErrInvalidArgument.
func CheckName(name string) error {
	odd := strings.TrimLeftFunc(name, func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
	})
	switch {
	case odd != "" || name == "" || len(name) > 64:
		return fmt.Errorf("%w: is not 1 to 64 of letters, digits, '.', '_' and '-'", model.ErrInvalidArgument)
	case name == AdminName:
		return fmt.Errorf("%w: is the name of server.admin_token: choose another", model.ErrInvalidArgument)
	}
	return nil
}

// The set functions read a value and answer what is wrong with it, or "".

func (e *entry) setName(node ast.Node) string {
	e.token.name = text(node)
	if err := CheckName(e.token.name); err != nil {
		return strings.TrimPrefix(err.Error(), model.ErrInvalidArgument.Error()+": ")
	}
	return ""
}

func (e *entry) setSum(node ast.Node) string {
	sum, err := hex.DecodeString(text(node))
	if err != nil || copy(e.token.sum[:], sum) != len(e.token.sum) || len(sum) != len(e.token.sum) {
		return "is not a SHA-256: write the 64 hex digits that shardid token new prints, in quotes, and never the token"
	}
	return ""
}

func (e *entry) setRole(node ast.Node) string {
	e.token.role = text(node)
	if e.token.role != RoleAdmin && e.token.role != RoleGet {
		return "is neither admin nor get"
	}
	return ""
}

func (e *entry) setApps(node ast.Node) string {
	if isStar(node) {
		for i := range e.token.apps {
			e.token.apps[i] = math.MaxUint64
		}
		return ""
	}
	return each(node, func(item string) bool {
		app, err := strconv.ParseUint(item, 10, 8)
		e.token.apps[app/64] |= 1 << (app % 64)
		return err == nil
	}, `is not "*" or a list of appIds, 0…255: write [1, 7]`)
}

func (e *entry) setTags(node ast.Node) string {
	if isStar(node) {
		e.token.tags.add("*")
		return ""
	}
	return each(node, func(item string) bool {
		e.token.tags.add(item)
		return strings.HasSuffix(item, "*") || model.CheckTag(item) == nil
	}, `is not "*" or a list of tags: write ["orders", "pre*"], where * at the end stands for any end`)
}

func (e *entry) setModes(node ast.Node) string {
	names := modeNames()
	return each(node, func(item string) bool {
		i := slices.Index(names[:], item)
		e.token.modes |= 1 << max(i, 0)
		return i >= 0
	}, "is not a list of queue, segment, snowflake and uid: write [queue, segment]")
}

func (e *entry) setRate(node ast.Node) string {
	r, err := strconv.ParseFloat(text(node), 64)
	if err != nil || !(r > 0 && r <= maxRate) { // the negation holds for NaN
		return fmt.Sprintf("is not a number of requests a second, above 0 and at most %d", maxRate)
	}
	e.rate = r
	return ""
}

func (e *entry) setBurst(node ast.Node) string {
	n, err := strconv.Atoi(text(node))
	if err != nil || n < 1 || n > maxRate {
		return fmt.Sprintf("is not a number of requests, 1…%d", maxRate)
	}
	e.burst = n
	return ""
}

func (e *entry) setExpires(node ast.Node) (problem string) {
	expires, err := ParseExpiry(text(node))
	e.token.expires = expires
	if err != nil {
		return "is not a date: write it as 2027-01-31, from whose midnight UTC on the token is refused, or with time and zone as 2027-01-31T18:00:00+08:00"
	}
	return ""
}

// ParseExpiry reads a day, which stands for its midnight UTC, or an RFC 3339 instant.
func ParseExpiry(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}
