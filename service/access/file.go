package access

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
		return nil, fmt.Errorf("%w: %s: cannot be read: %w", model.Do("name a file that this user may read"), name, err)
	}
	return Parse(name, data)
}

// Parse is ReadFile for what is read already; name is for messages.
func Parse(name string, data []byte) ([]*Token, error) {
	var entries []entry
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	documents := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	err := documents.Decode(&entries)
	if wrong, ok := errors.AsType[yaml.Error](err); ok {
		problem := regexp.MustCompile(`"[^"]*"|'[^']*'|[\r\n]`).ReplaceAllString(wrong.GetMessage(), "…")
		return nil, fmt.Errorf("%w: %s:%d: %s", model.Do("write each token as shardid token new prints it, with the "+
			"keys name, sha256, may, rate, ids_per_second and expires; docs/access.md#tokens-of-03 shows those of 0.3"),
			name, wrong.GetToken().Position.Line, problem)
	}
	var written []map[string]any // the entries with their keys that are empty
	if err == nil {
		err = yaml.Unmarshal(data, &written)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s: is not YAML", model.Do("restore the file"), name)
	}
	if err == nil && !errors.Is(documents.Decode(new(any)), io.EOF) {
		return nil, fmt.Errorf("%w: %s: has several documents", model.Do("keep one, without ---"), name)
	}
	if entries == nil { // a file that was emptied by accident must not close the service
		return nil, fmt.Errorf("%w: %s: has no token", model.Do("restore the file, or paste the line of shardid token "+
			"new, or write [] if there is to be no token"), name)
	}
	all, seen := make([]*Token, len(entries)), map[Credential]bool{}
	for i, e := range entries {
		t, err := newToken(e)
		for _, key := range []string{"rate", "ids_per_second", "expires"} {
			if value, is := written[i][key]; is && value == nil { // as of a variable that is not set
				err = fmt.Errorf("%w: %s: is empty", model.Do("write a value, or remove the key"), key)
			}
		}
		if err == nil && seen[t.sum] {
			err = fmt.Errorf("%w: sha256: is there twice", model.Do("keep one"))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: token %d: %w", name, i+1, err)
		}
		all[i], seen[t.sum] = t, true
	}
	return all, nil
}

// newToken is the token of an entry, or says what is wrong with that.
func newToken(e entry) (t *Token, err error) {
	wrong := func(do, what string) (*Token, error) { return nil, fmt.Errorf("%w: %s", model.Do("%s", do), what) }
	t = &Token{entry: e, of: map[model.Mode][]string{}}
	sum, unread := hex.DecodeString(e.SHA256)
	switch {
	case !tokenName.MatchString(e.Name):
		return wrong("write 1 to 64 of letters, digits, '.', '_' and '-'", "name: has something else")
	case e.Name == AdminName:
		return wrong("choose another name", "name: is that of server.admin_token")
	case unread != nil || copy(t.sum[:], sum) != len(t.sum) || len(sum) != len(t.sum):
		return wrong("write the 64 hex digits that shardid token new prints, in quotes, and never the token",
			"sha256: is not a SHA-256")
	case e.May == nil:
		return wrong(grantForms, "may: is missing")
	}
	for _, item := range e.May {
		if !t.grant(item) {
			return wrong(grantForms, "may: has something else")
		}
	}
	if r := e.Rate; r != nil {
		if !(*r > 0 && *r <= maxRate) { // the negation holds for NaN
			return wrong(fmt.Sprintf("write a number above 0 and at most %d", maxRate),
				"rate: is not a number of requests a second")
		}
		t.requests = newLimit(*r)
	}
	if q := e.IDsPerSecond; q != nil {
		if *q < 1 || *q > maxQuota {
			return wrong(fmt.Sprintf("write a number in 1…%d, or remove the key for no limit", int64(maxQuota)),
				"ids_per_second: is not a whole number of IDs")
		}
		t.ids = newLimit(float64(*q))
	}
	if e.Expires != nil && e.Expires.IsZero() { // the library gives this for what it cannot read
		return wrong("write a date such as 2027-01-31, from whose midnight UTC on the token is refused, or with time "+
			"and zone as 2027-01-31T18:00:00+08:00", "expires: is not a date")
	}
	return t, nil
}
