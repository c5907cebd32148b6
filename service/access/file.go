package access

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"

	"shardid/model"

	"github.com/goccy/go-yaml"
)

const (
	// maxRate is the highest rate, in requests a second.
	maxRate = 1_000_000
	// maxQuota is the largest quota, in IDs a second: more than a replica issues.
	maxQuota = 1_000_000_000_000
)

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ReadFile reads the tokens of a file. The error is one line, which names the file, and the line or the
// token in it, and shows nothing that could be a token.
func ReadFile(name string) ([]*Token, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be read: %w: name a file that this user may read", name, err)
	}
	return Parse(name, data)
}

// Parse is ReadFile for what is read already; name is for messages.
func Parse(name string, data []byte) ([]*Token, error) {
	var entries []entry
	err := yaml.UnmarshalWithOptions(bytes.TrimPrefix(data, []byte("\uFEFF")), &entries, yaml.Strict())
	if wrong, ok := errors.AsType[yaml.Error](err); ok {
		problem := regexp.MustCompile(`"[^"]*"|'[^']*'|[\r\n]`).ReplaceAllString(wrong.GetMessage(), "…")
		return nil, fmt.Errorf("%s:%d: %s: write each token as shardid token new prints it, its keys are name, "+
			"sha256, may, rate, ids_per_second and expires; docs/access.md#tokens-of-03 shows those of 0.3",
			name, wrong.GetToken().Position.Line, problem)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: is not YAML", name)
	}
	if entries == nil { // a file that was emptied by accident must not close the service
		return nil, fmt.Errorf("%s: has no token: if that is meant, write []; else restore it, or paste the line of "+
			"shardid token new", name)
	}
	all, seen := make([]*Token, len(entries)), map[Credential]bool{}
	for i, e := range entries {
		t, problem := newToken(e)
		if problem == "" && seen[t.sum] {
			problem = "sha256: is there twice: keep one"
		}
		if problem != "" {
			return nil, fmt.Errorf("%s: token %d: %s", name, i+1, problem)
		}
		all[i], seen[t.sum] = t, true
	}
	return all, nil
}

// newToken is the token of an entry, or says what is wrong with that.
func newToken(e entry) (t *Token, problem string) {
	t = &Token{entry: e, of: map[model.Mode][]string{}}
	sum, err := hex.DecodeString(e.SHA256)
	switch {
	case !tokenName.MatchString(e.Name):
		return nil, "name: is not 1 to 64 of letters, digits, '.', '_' and '-'"
	case e.Name == AdminName:
		return nil, "name: is the name of server.admin_token: choose another"
	case err != nil || copy(t.sum[:], sum) != len(t.sum) || len(sum) != len(t.sum):
		return nil, "sha256: is not a SHA-256: write the 64 hex digits that shardid token new prints, in quotes, " +
			"and never the token"
	case e.May == nil:
		return nil, "may: is missing: " + grantForms
	}
	for _, item := range e.May {
		if !t.grant(item) {
			return nil, "may: has something else than what may be had: " + grantForms
		}
	}
	if r := e.Rate; r != nil {
		if !(*r > 0 && *r <= maxRate) { // the negation holds for NaN
			return nil, fmt.Sprintf("rate: is not a number of requests a second, above 0 and at most %d", maxRate)
		}
		t.requests = newLimit(*r)
	}
	if q := e.IDsPerSecond; q != nil {
		if *q < 1 || *q > maxQuota {
			return nil, fmt.Sprintf("ids_per_second: is not a whole number of IDs, 1…%d: remove the key for no limit",
				int64(maxQuota))
		}
		t.ids = newLimit(float64(*q))
	}
	if e.Expires != nil && e.Expires.IsZero() { // the library gives this for what it cannot read
		return nil, "expires: is not a date: write it as 2027-01-31, from whose midnight UTC on the token is " +
			"refused, or with time and zone as 2027-01-31T18:00:00+08:00"
	}
	return t, ""
}
