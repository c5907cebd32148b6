package access

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/yamlfile"
)

// What a file says is what its tokens show of themselves.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                           "",
		"# none, on purpose\n[]\n":     "",
		"\uFEFF" + one("a", "[]"):      "a-service []",
		one("a", "[]") + one("b", ""):  "a-service [] b-service []",
		one("a", "[queue:1, uid]"):     "a-service [queue:1 uid]",
		one("a", `["queue:*"]`):        "a-service [queue:*]",
		one("a", "\n  - segment:pre*"): "a-service [segment:pre*]",
		one("a", "[uid]\n  rate: 0.5\n  ids_per_second: 5"):                                                 "a-service [uid] rate 0.5 ids 5",
		one("a", "[uid]\n  expires: 2027-01-31"):                                                            "a-service [uid] until 2027-01-31T00:00:00Z",
		one("a", "[uid]\n  expires: '2027-01-31T08:00:00+08:00'"):                                           "a-service [uid] until 2027-01-31T00:00:00Z",
		`- {name: x, sha256: "` + sumOf("x") + `", may: ["sequence:chat", "lease:carts*", admin], rate: 1}`: "x [sequence:chat lease:carts* admin] rate 1",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		var shown []string
		for _, token := range tokens {
			v := token.View()
			line := fmt.Sprintf("%s %v", v.Name, v.May)
			if v.Rate > 0 {
				line += fmt.Sprintf(" rate %v", v.Rate)
			}
			if v.IDsPerSecond > 0 {
				line += fmt.Sprintf(" ids %d", v.IDsPerSecond)
			}
			if !v.Expires.IsZero() {
				line += " until " + v.Expires.UTC().Format(time.RFC3339)
			}
			shown = append(shown, line)
		}
		if got := strings.Join(shown, " "); err != nil || got != want {
			t.Errorf("%q:\ngot  %s, %v\nwant %s", text, got, err, want)
		}
	}
}

// Each mistake is named with file, line and key, and no text of the file is shown:
// somebody may have written the token there.
func TestParseNamesTheMistake(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "t.yaml:1: has no token: if that is meant, write []",
		"~":                                      "t.yaml:1: has no token: if that is meant, write []",
		"name: x\n":                              "t.yaml:1: is not a list",
		"- secret\n":                             "t.yaml:1: is no token",
		"- name: 'x\n":                           "t.yaml:1: is not YAML",
		strings.Repeat("- x\n", maxTokens+1):     "t.yaml:1: has 1001 tokens, at most 1000",
		"# a\n- may: []\n  name: x\n":            "t.yaml:2: sha256: is missing",
		"- name: x\n  sha256: secret\n":          "t.yaml:2: sha256: is not a SHA-256",
		"- sha256: " + sumOf("a") + "00\n":       "t.yaml:1: sha256: is not a SHA-256",
		"- sha256: [secret]\n":                   "t.yaml:1: sha256: is not a SHA-256",
		"- name: secret secret\n":                "t.yaml:1: name: is not 1 to 64 of letters",
		"- name: &a secret\n":                    "t.yaml:1: name: is not 1 to 64 of letters",
		"- name: admin\n":                        "t.yaml:1: name: is the name of server.admin_token",
		"- name: x\n  name: y\n":                 "t.yaml:2: name: is there twice",
		"- name: x\n  token: secret\n":           "t.yaml:2: token: unknown key: the keys are name, sha256, may, rate, ids_per_second and expires",
		"- token:secret: x\n":                    "t.yaml:1: token: unknown key",
		"- may: secret\n":                        "t.yaml:1: may: is not a list",
		"- may: [secret]\n":                      "t.yaml:1: may: has something else than what may be had",
		"- may: [queue]\n":                       "t.yaml:1: may: has something else",
		"- may: [queue:1*]\n":                    "t.yaml:1: may: has something else",
		"- may: [queue:256]\n":                   "t.yaml:1: may: has something else",
		"- may: [segment:]\n":                    "t.yaml:1: may: has something else",
		"- may: [lease:a/b]\n":                   "t.yaml:1: may: has something else",
		"- may: [sequence:a/b]\n":                "t.yaml:1: may: has something else",
		"- may: [uid:1]\n":                       "t.yaml:1: may: has something else",
		"- may: ['admin:x']\n":                   "t.yaml:1: may: has something else",
		"- {may: [queue: 1]}\n":                  `t.yaml:1: may: needs quotes around what has a colon: write it like ["queue:1", `,
		"- rate: 0\n":                            "t.yaml:1: rate: is not a number of requests a second",
		"- rate: .nan\n":                         "t.yaml:1: rate: is not a number of requests a second",
		"- rate: 1000001\n":                      "t.yaml:1: rate: is not a number of requests a second",
		"- ids_per_second: 0\n":                  "t.yaml:1: ids_per_second: is not a whole number of IDs, 1…1000000000000: remove the key for no limit",
		"- ids_per_second: 0.5\n":                "t.yaml:1: ids_per_second: is not a whole number",
		"- ids_per_second: [secret]\n":           "t.yaml:1: ids_per_second: is not a whole number of IDs",
		"- expires: 2027-02-30\n":                "t.yaml:1: expires: is not a date",
		one("a", "[]") + one("a", "[]"):          "t.yaml:4: sha256: is there twice",
		strings.Repeat(" ", yamlfile.MaxBytes+1): "t.yaml:1: is larger than 256 KiB",
		"- {name: x, role: admin}":               "t.yaml:1: role: unknown key: the keys are name, sha256, may, rate, ids_per_second and expires; docs/access.md",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		switch {
		case err == nil || errors.Is(err, model.ErrInvalidArgument) || tokens != nil: // the program was called rightly
			t.Errorf("%.60q: %v, %v", text, tokens, err)
		case !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%.60q:\ngot  %v\nwant %s", text, err, want)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%.60q shows what may be a token: %v", text, err)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); err == nil ||
		!strings.Contains(err.Error(), "none: cannot be read: no such file or directory: name a file") {
		t.Error(err)
	}
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
			if !tokenName.MatchString(token.name) || token.sum == (digest{}) {
				t.Errorf("%+v", token)
			}
		}
	})
}
