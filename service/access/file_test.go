package access

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// What a file says is what its tokens show of themselves.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"# none, on purpose\n[]\n":                                "",
		"\uFEFF" + one("a", "[]"):                                 "a-service []",
		one("a", "[]") + one("b", "['uid']"):                      "a-service [] b-service [uid]",
		one("a", "\n  - segment:pre*\n  - uid"):                   "a-service [segment:pre* uid]",
		one("a", "[uid]\n  rate: 0.5\n  ids_per_second: 5"):       "a-service [uid] rate 0.5 ids 5",
		one("a", "[uid]\n  expires: 2027-01-31"):                  "a-service [uid] until 2027-01-31T00:00:00Z",
		one("a", "[uid]\n  expires: '2027-01-31T08:00:00+08:00'"): "a-service [uid] until 2027-01-31T00:00:00Z",
		`- {name: x, sha256: "` + sumOf("x") +
			`", may: ["sequence:chat", "lease:carts*", admin], rate: 1}`: "x [sequence:chat lease:carts* admin] rate 1",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		var shown []string
		for _, token := range tokens {
			line := fmt.Sprintf("%s %v", token.Name(), token.May)
			if token.Rate != nil {
				line += fmt.Sprintf(" rate %v", *token.Rate)
			}
			if token.IDsPerSecond != nil {
				line += fmt.Sprintf(" ids %d", *token.IDsPerSecond)
			}
			if token.Expires != nil {
				line += " until " + token.Expires.UTC().Format(time.RFC3339)
			}
			shown = append(shown, line)
		}
		if got := strings.Join(shown, " "); err != nil || got != want {
			t.Errorf("%q:\ngot  %s, %v\nwant %s", text, got, err, want)
		}
	}
}

// Each mistake is named with the file, and the line or the token. No text of the file is shown: somebody may have
// written the token there.
func TestParseNamesTheMistake(t *testing.T) {
	good := one("a", "[]")
	for text, want := range map[string]string{
		"":                                          "restore the file, or paste the line of shardid token new, ",
		"name: x\n":                                 "write each token as shardid token new prints it",
		"- secret\n":                                "string was used where mapping is expected",
		"- name: 'secret\n":                         "could not find end character",
		"- name: x\n  name: secret\n":               "mapping key … already defined",
		"- name: x\n  role: secret\n":               "expires; docs/access.md#tokens-of-03 shows",
		"- may: [secret: 1]\n":                      "cannot unmarshal",
		good + "- name: x\n  may: []\n":             "token 2: sha256: is not a SHA-256",
		"- {name: x, sha256: secret}":               "token 1: sha256: is not a SHA-256",
		one("a", "[]") + "- name: x y\n":            "token 2: name: has something else",
		"- name: admin\n":                           "token 1: name: is that of server.admin_token",
		"- {name: x, sha256: '" + sumOf("a") + "'}": "token 1: may: is missing",
		one("a", "[secret]"):                        "token 1: may: has something else",
		one("a", "[queue]"):                         "may: has something else",
		one("a", "['queue:1*']"):                    "may: has something else",
		one("a", "['queue:256']"):                   "may: has something else",
		one("a", "['queue:01']"):                    "may: has something else",
		one("a", "['segment:']"):                    "may: has something else",
		one("a", "['lease:a/b']"):                   "may: has something else",
		one("a", "['uid:1']"):                       "may: has something else",
		one("a", "['admin:x']"):                     "may: has something else",
		one("a", "[]\n  rate: 0"):                   "rate: is not a number of requests a second",
		one("a", "[]\n  rate: .nan"):                "rate: is not a number of requests a second",
		one("a", "[]\n  rate: 1000001"):             "rate: is not a number of requests a second",
		one("a", "[]\n  ids_per_second: 0.5"):       "write a number in 1…1000000000000, or remove the key",
		one("a", "[]\n  expires: 2027-02-30"):       "expires: is not a date",
		good + good:                                 "token 2: sha256: is there twice",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		says := model.Message(err)
		if err == nil || errors.Is(err, model.ErrInvalidArgument) || tokens != nil || // the program was called rightly
			!strings.Contains(says, ": t.yaml:") || !strings.Contains(says, want) ||
			strings.Contains(err.Error(), "\n") || strings.Contains(says, "secret") {
			t.Errorf("%q:\ngot  %s\nwant %s", text, says, want)
		}
	}
	_, err := ReadFile(filepath.Join(t.TempDir(), "none"))
	check.Has(t, fmt.Sprint(err), "none: cannot be read: no such file or directory")
}

// What was generated is one token and its hash, and another one each time.
func TestGenerate(t *testing.T) {
	a, sum := Generate()
	b, _ := Generate()
	if len(a) != len(prefix)+43 || !strings.HasPrefix(a, prefix) || a == b || sum != sumOf(a) {
		t.Errorf("%q and %q, sum %s", a, b, sum)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(one("a", "[queue:1, segment:x*, sequence:c*]\n  rate: 5\n  expires: 2027-01-31\n"))
	f.Add("- {name: x, sha256: &a 1, role: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := Parse("t.yaml", []byte(text))
		if err != nil && (tokens != nil || strings.ContainsAny(err.Error(), "\r\n")) {
			t.Errorf("%v, %v", tokens, err)
		}
		for _, token := range tokens {
			if !tokenName.MatchString(token.Name()) || token.sum == (Credential{}) {
				t.Errorf("%+v", token)
			}
		}
	})
}
