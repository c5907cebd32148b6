package access

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/yamlfile"

	"go.yaml.in/yaml/v3"
	"golang.org/x/time/rate"
)

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// maxRate is the highest rate and the largest burst, in requests a second and
// requests: more than a server answers.
const maxRate = 1_000_000

// entry is a token on its way out of a file.
type entry struct {
	file  string
	node  *yaml.Node
	at    map[string]*yaml.Node // where each key is
	token *Token
	rate  float64 // 0: none
	burst int     // 0: not given
}

// fail is about a key, or about the whole entry when the key is not there.
func (e *entry) fail(key, problem string) error {
	return yamlfile.Fail(e.file, cmp.Or(e.at[key], e.node), key, problem)
}

func (e *entry) read() error {
	if e.node.Kind != yaml.MappingNode {
		return e.fail("", "is no token: write its keys, beginning with - name:")
	}
	setters := map[string]func(*yaml.Node) string{
		"name": e.setName, "sha256": e.setSum, "role": e.setRole, "apps": e.setApps, "tags": e.setTags,
		"modes": e.setModes, "rate": e.setRate, "burst": e.setBurst, "expires": e.setExpires,
	}
	for pair := range slices.Chunk(e.node.Content, 2) {
		key := yamlfile.Text(pair[0])
		set, known := setters[key]
		switch {
		case !known:
			like := regexp.MustCompile(`^[a-z0-9_]{0,20}`).FindString(key) // what follows may be a token
			return yamlfile.Fail(e.file, pair[0], like, "unknown key: the keys are name, sha256, role, apps, tags, modes, rate, burst and expires")
		case e.at[key] != nil:
			return yamlfile.Fail(e.file, pair[0], key, "is there twice: keep one")
		}
		e.at[key] = pair[0]
		if problem := set(pair[1]); problem != "" {
			return e.fail(key, problem)
		}
	}
	return e.complete()
}

// complete checks what belongs together and settles what was left out.
func (e *entry) complete() error {
	for _, key := range []string{"name", "sha256", "role"} {
		if e.at[key] == nil {
			return e.fail(key, "is missing: every token has a name, a sha256 and a role")
		}
	}
	if e.burst > 0 && e.rate == 0 {
		return e.fail("burst", "needs a rate: add one, or remove burst")
	}
	if e.rate > 0 {
		e.token.limiter = rate.NewLimiter(rate.Limit(e.rate), cmp.Or(e.burst, int(math.Ceil(e.rate))))
	}
	if e.token.role == RoleAdmin {
		for _, key := range []string{"apps", "tags", "modes"} {
			if e.at[key] != nil {
				return e.fail(key, "is for the role get: one of admin is for administration and has no IDs")
			}
		}
		return nil
	}
	var given Modes
	if e.at["apps"] != nil {
		given |= Queue
	}
	if e.at["tags"] != nil {
		given |= Segment
	}
	if e.at["modes"] == nil {
		e.token.modes = given
	}
	if bad := given &^ e.token.modes; bad != 0 {
		return e.fail("modes", "leaves out "+bad.String()+", of which apps or tags are given: add it, or remove those")
	}
	if bad := e.token.modes & (Queue | Segment) &^ given; bad != 0 {
		return e.fail("modes", "has "+bad.String()+" but nothing of it is given: list apps for queue and tags for segment")
	}
	return nil
}

// The set functions read a value and answer what is wrong with it, or "".

func (e *entry) setName(node *yaml.Node) string {
	e.token.name = yamlfile.Text(node)
	switch {
	case !tokenName.MatchString(e.token.name):
		return "is not 1 to 64 of letters, digits, '.', '_' and '-'"
	case e.token.name == AdminName:
		return "is the name of server.admin_token: choose another"
	}
	return ""
}

func (e *entry) setSum(node *yaml.Node) string {
	sum, err := hex.DecodeString(yamlfile.Text(node))
	if err != nil || copy(e.token.sum[:], sum) != len(e.token.sum) || len(sum) != len(e.token.sum) {
		return "is not a SHA-256: write the 64 hex digits that shardid token new prints, in quotes, and never the token"
	}
	return ""
}

func (e *entry) setRole(node *yaml.Node) string {
	e.token.role = yamlfile.Text(node)
	if e.token.role != RoleAdmin && e.token.role != RoleGet {
		return "is neither admin nor get"
	}
	return ""
}

func (e *entry) setApps(node *yaml.Node) string {
	if node.Value == "*" && yamlfile.Text(node) != "" {
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

func (e *entry) setTags(node *yaml.Node) string {
	if node.Value == "*" && yamlfile.Text(node) != "" {
		e.token.tags.add("*")
		return ""
	}
	return each(node, func(item string) bool {
		e.token.tags.add(item)
		return strings.HasSuffix(item, "*") || model.CheckTag(item) == nil
	}, `is not "*" or a list of tags: write ["orders", "pre*"], where * at the end stands for any end`)
}

func (e *entry) setModes(node *yaml.Node) string {
	names := modeNames()
	return each(node, func(item string) bool {
		i := slices.Index(names[:], item)
		e.token.modes |= 1 << max(i, 0)
		return i >= 0
	}, "is not a list of queue, segment, snowflake and uid: write [queue, segment]")
}

func (e *entry) setRate(node *yaml.Node) string {
	r, err := strconv.ParseFloat(yamlfile.Text(node), 64)
	if err != nil || !(r > 0 && r <= maxRate) { // the negation holds for NaN
		return fmt.Sprintf("is not a number of requests a second, above 0 and at most %d", maxRate)
	}
	e.rate = r
	return ""
}

func (e *entry) setBurst(node *yaml.Node) string {
	n, err := strconv.Atoi(yamlfile.Text(node))
	if err != nil || n < 1 || n > maxRate {
		return fmt.Sprintf("is not a number of requests, 1…%d", maxRate)
	}
	e.burst = n
	return ""
}

func (e *entry) setExpires(node *yaml.Node) string {
	var err error
	if e.token.expires, err = parseExpiry(yamlfile.Text(node)); err != nil {
		return "is not a date: write it as 2027-01-31, from whose midnight UTC on the token is refused, or with time and zone as 2027-01-31T18:00:00+08:00"
	}
	return ""
}

// parseExpiry reads a day, which stands for its midnight UTC, or an RFC 3339 instant.
func parseExpiry(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

// each gives the items of a list to use, and answers problem when it is none, is
// empty, or use refuses an item.
func each(node *yaml.Node, use func(item string) bool, problem string) string {
	if node.Kind != yaml.SequenceNode || !yamlfile.Plain(node) || len(node.Content) == 0 {
		return problem
	}
	for _, item := range node.Content {
		if s := yamlfile.Text(item); s == "" || !use(s) {
			return problem
		}
	}
	return ""
}
