package access

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"shardid/service/yamlfile"

	"go.yaml.in/yaml/v3"
)

const (
	// maxTokens bounds a file, which may be read every few seconds.
	maxTokens = 10_000
	// maxRate is the highest rate, in requests a second, and the largest burst.
	maxRate = 1_000_000
	// maxQuota is the largest quota, in IDs: more than a replica issues in a second.
	maxQuota = 1_000_000_000_000
)

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ReadFile reads the tokens of a file. The error has file, line and key in one line and
// shows nothing that could be a token.
func ReadFile(name string) ([]*Token, error) {
	err := Regular(name)
	var data []byte
	if err == nil {
		data, err = yamlfile.Read(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: give the service a file that it may read, shardid token new --append makes one", err)
	}
	return Parse(name, data)
}

// Parse is ReadFile for what is read already; name is for messages.
func Parse(name string, data []byte) ([]*Token, error) {
	root, err := yamlfile.Parse(name, data)
	switch {
	case err != nil:
		return nil, err
	case root == nil: // a file that was emptied by accident must not close the service
		return nil, yamlfile.Fail(name, nil, "", "has no token: if that is meant, write []; else restore it, or add one by shardid token new --append")
	case root.Kind != yaml.SequenceNode:
		return nil, yamlfile.Fail(name, root, "", "is not a list: begin each token with - name:")
	case len(root.Content) > maxTokens:
		return nil, yamlfile.Fail(name, nil, "", fmt.Sprintf("has %d tokens, at most %d are allowed", len(root.Content), maxTokens))
	}
	var all []*Token
	seen := map[digest]bool{}
	for _, node := range root.Content {
		e := entry{file: name, node: node, token: &Token{}, at: map[string]*yaml.Node{}}
		if err := e.read(); err != nil {
			return nil, err
		}
		if seen[e.token.sum] {
			return nil, e.fail("sha256", "is there twice: keep one")
		}
		seen[e.token.sum] = true
		all = append(all, e.token)
	}
	return all, nil
}

// entry is a token on its way out of a file.
type entry struct {
	file  string
	node  *yaml.Node
	at    map[string]*yaml.Node // where each key is
	token *Token
	rate  float64 // 0: none
	burst int     // 0: not given

	perSecond int64 // the quota of IDs; 0: none
}

// fail is about a key, or about the whole entry when the key is not there.
func (e *entry) fail(key, problem string) error {
	return yamlfile.Fail(e.file, cmp.Or(e.at[key], e.node), key, problem)
}

func (e *entry) read() error {
	if e.node.Kind != yaml.MappingNode {
		return e.fail("", "is no token: write its keys, beginning with - name:")
	}
	for pair := range slices.Chunk(e.node.Content, 2) {
		key, set := yamlfile.Text(pair[0]), e.setText
		switch key {
		case "name", "sha256", "role", "rate", "burst", "ids_per_second", "expires":
		case "apps", "tags", "names", "spaces", "modes":
			set = e.setList
		case "ids_per_day":
			return yamlfile.Fail(e.file, pair[0], key, "was removed: use ids_per_second")
		default:
			like := regexp.MustCompile(`^[a-z0-9_]{0,20}`).FindString(key) // what follows may be a token
			return yamlfile.Fail(e.file, pair[0], like, "unknown key: the keys are name, sha256, role, apps, "+
				"tags, names, spaces, modes, rate, burst, ids_per_second and expires")
		}
		if e.at[key] != nil {
			return yamlfile.Fail(e.file, pair[0], key, "is there twice: keep one")
		}
		e.at[key] = pair[0]
		if problem := set(key, pair[1]); problem != "" {
			return e.fail(key, problem)
		}
	}
	return e.complete()
}

// setText reads a text or a number, and returns what is wrong with it or "".
func (e *entry) setText(key string, node *yaml.Node) string {
	t, text := e.token, yamlfile.Text(node)
	var err error
	switch key {
	case "name":
		if t.name = text; !tokenName.MatchString(text) {
			return "is not 1 to 64 of letters, digits, '.', '_' and '-'"
		}
		if text == AdminName {
			return "is the name of server.admin_token: choose another"
		}
	case "sha256":
		sum, err := hex.DecodeString(text)
		if copy(t.sum[:], sum); err != nil || len(sum) != len(t.sum) {
			return "is not a SHA-256: write the 64 hex digits that shardid token new prints, in quotes, and never the token"
		}
	case "role":
		if t.role = text; text != RoleAdmin && text != RoleGet {
			return "is neither admin nor get"
		}
	case "rate":
		e.rate, err = strconv.ParseFloat(text, 64)
		if err != nil || !(e.rate > 0 && e.rate <= maxRate) { // the negation holds for NaN
			return fmt.Sprintf("is not a number of requests a second, above 0 and at most %d", maxRate)
		}
	case "burst":
		if e.burst, err = strconv.Atoi(text); err != nil || e.burst < 1 || e.burst > maxRate {
			return fmt.Sprintf("is not a number of requests, 1…%d", maxRate)
		}
	case "ids_per_second":
		e.perSecond, err = strconv.ParseInt(text, 10, 64)
		if err != nil || e.perSecond < 1 || e.perSecond > maxQuota {
			return fmt.Sprintf("is not a whole number of IDs, 1…%d: remove the key for no limit", int64(maxQuota))
		}
	case "expires": // a day stands for its midnight UTC
		if t.expires, err = time.Parse(time.DateOnly, text); err != nil {
			t.expires, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return "is not a date: write it as 2027-01-31, from whose midnight UTC on the token is refused, or with time and zone as 2027-01-31T18:00:00+08:00"
		}
	}
	return ""
}

// setList is setText for keys with lists. All but modes may be "*".
func (e *entry) setList(key string, node *yaml.Node) string {
	t, names := e.token, modeNames()
	everything := node.Value == "*" && yamlfile.Text(node) != ""
	problem := "is not a list of queue, segment, snowflake, uid, lease and sequence: write [queue, segment]"
	add := func(item string) bool {
		i := slices.Index(names[:], item)
		t.modes |= 1 << max(i, 0)
		return i >= 0
	}
	if key == "apps" {
		if everything {
			for i := range t.apps {
				t.apps[i] = math.MaxUint64
			}
			return ""
		}
		problem = `is not "*" or a list of appIds, 0…255: write [1, 7]`
		add = func(item string) bool {
			app, err := strconv.ParseUint(item, 10, 8)
			t.apps[app/64] |= 1 << (app % 64)
			return err == nil
		}
	}
	for _, l := range t.lists() {
		switch {
		case key != l.key:
			continue
		case everything:
			l.of.prefixes = []string{""}
			return ""
		}
		problem = `is not "*" or a list of ` + l.what + `: write ["orders", "pre*"], where * at the end stands for any end`
		add = func(item string) bool { return l.of.add(item, l.check) }
	}
	if node.Kind != yaml.SequenceNode || !yamlfile.Plain(node) || len(node.Content) == 0 {
		return problem
	}
	for _, item := range node.Content {
		if text := yamlfile.Text(item); text == "" || !add(text) {
			return problem
		}
	}
	return ""
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
	if e.rate > 0 || e.perSecond > 0 {
		most := float64(e.perSecond)
		e.token.limits = &limits{
			requests: bucket{perSecond: e.rate, most: float64(cmp.Or(e.burst, int(math.Ceil(e.rate))))},
			ids:      bucket{perSecond: most, most: most}, now: time.Now,
		}
	}
	if e.token.role == RoleAdmin {
		for _, key := range []string{"apps", "tags", "names", "spaces", "modes", "ids_per_second"} {
			if e.at[key] != nil {
				return e.fail(key, "is for the role get: one of admin is for administration and has no IDs")
			}
		}
		return nil
	}
	var given, listable Modes = 0, Queue
	if e.at["apps"] != nil {
		given = Queue
	}
	for _, l := range e.token.lists() {
		listable |= l.mode
		if e.at[l.key] != nil {
			given |= l.mode
		}
	}
	if e.at["modes"] == nil {
		e.token.modes = given
	}
	if bad := given &^ e.token.modes; bad != 0 {
		return e.fail("modes", "leaves out "+bad.String()+", of which apps, tags, names or spaces are given: add it, or remove those")
	}
	if bad := e.token.modes & listable &^ given; bad != 0 {
		return e.fail("modes", "has "+bad.String()+" but nothing of it is given: list apps for queue, tags for segment, names for lease and spaces for sequence")
	}
	return nil
}
