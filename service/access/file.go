package access

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"shardid/service/yamlfile"

	"github.com/goccy/go-yaml/ast"
)

const (
	// maxTokens bounds a file, which may be read every few seconds.
	maxTokens = 1000
	// maxRate is the highest rate, in requests a second.
	maxRate = 1_000_000
	// maxQuota is the largest quota, in IDs a second: more than a replica issues.
	maxQuota = 1_000_000_000_000
)

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ReadFile reads the tokens of a file. The error has file, line and key in one line and
// shows nothing that could be a token.
func ReadFile(name string) ([]*Token, error) {
	root, err := yamlfile.Read(name)
	if err != nil {
		return nil, err
	}
	return tokensOf(name, root)
}

// Parse is ReadFile for what is read already; name is for messages.
func Parse(name string, data []byte) ([]*Token, error) {
	root, err := yamlfile.Parse(name, data)
	if err != nil {
		return nil, err
	}
	return tokensOf(name, root)
}

func tokensOf(name string, root ast.Node) ([]*Token, error) {
	list, isList := root.(*ast.SequenceNode)
	switch {
	case root == nil: // a file that was emptied by accident must not close the service
		return nil, yamlfile.Fail(name, nil, "has no token: if that is meant, write []; else restore it, or paste the "+
			"line of shardid token new")
	case !isList:
		return nil, yamlfile.Fail(name, root, "is not a list: write each token as shardid token new prints it")
	case len(list.Values) > maxTokens:
		return nil, yamlfile.Fail(name, nil,
			fmt.Sprintf("has %d tokens, at most %d are allowed", len(list.Values), maxTokens))
	}
	var all []*Token
	for _, node := range list.Values {
		token, err := readToken(name, node)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *Token) bool { return other.sum == token.sum }) {
			return nil, yamlfile.Fail(name, node, "sha256: is there twice: keep one")
		}
		all = append(all, token)
	}
	return all, nil
}

// readToken reads an entry of a file.
func readToken(file string, node ast.Node) (*Token, error) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		return nil, yamlfile.Fail(file, node, "is no token: write it as shardid token new prints it")
	}
	t, seen := &Token{}, map[string]bool{}
	for _, pair := range mapping.Values {
		key, _ := yamlfile.Text(pair.Key)
		problem := t.setKey(key, pair.Value)
		if seen[key] {
			problem = "is there twice: keep one"
		}
		if problem != "" {
			shown := regexp.MustCompile(`^[a-z0-9_]{0,20}`).FindString(key) // what follows may be a token
			return nil, yamlfile.Fail(file, pair.Key, shown+": "+problem)
		}
		seen[key] = true
	}
	for _, key := range []string{"name", "sha256", "may"} {
		if !seen[key] {
			return nil, yamlfile.Fail(file, node, key+": is missing: every token has a name, a sha256 and a list may")
		}
	}
	return t, nil
}

// setKey reads the value of a key, and returns what is wrong with it or "".
func (t *Token) setKey(key string, node ast.Node) string {
	text, _ := yamlfile.Text(node)
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
	case "may":
		list, ok := node.(*ast.SequenceNode)
		if !ok {
			return "is not a list: " + grantForms
		}
		for _, item := range list.Values {
			grant, ok := yamlfile.Text(item)
			if _, pair := item.(*ast.MappingNode); pair {
				return `needs quotes around what has a colon: write it like ["queue:1", "segment:orders*"]`
			}
			if !ok || !t.grant(grant) {
				return "has something else than what may be had: " + grantForms
			}
		}
	case "rate":
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate > 0 && rate <= maxRate) { // the negation holds for NaN
			return fmt.Sprintf("is not a number of requests a second, above 0 and at most %d", maxRate)
		}
		t.requests = newLimit(rate)
	case "ids_per_second":
		quota, err := strconv.ParseInt(text, 10, 64)
		if err != nil || quota < 1 || quota > maxQuota {
			return fmt.Sprintf("is not a whole number of IDs, 1…%d: remove the key for no limit", int64(maxQuota))
		}
		t.ids = newLimit(float64(quota))
	case "expires": // a day stands for its midnight UTC
		var err error
		if t.expires, err = time.Parse(time.DateOnly, text); err != nil {
			t.expires, err = time.Parse(time.RFC3339, text)
		}
		if err != nil {
			return "is not a date: write it as 2027-01-31, from whose midnight UTC on the token is refused, " +
				"or with time and zone as 2027-01-31T18:00:00+08:00"
		}
	default:
		return "unknown key: the keys are name, sha256, may, rate, ids_per_second and expires; docs/access.md says " +
			"what is in place of those of 0.3"
	}
	return ""
}
