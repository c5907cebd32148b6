package access

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardid/model"
	"shardid/service/yamlfile"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                         "",
		"# none, on purpose\n[]\n":   "",
		"\uFEFF" + one("a", ""):      "a-service get: nothing but monitoring, no limit",
		one("a", "  apps: [1, 7]\n"): "a-service get: queue of apps 1, 7, no limit",
		one("a", "  apps: '*'\n"):    "a-service get: queue of apps *, no limit",
		one("a", "  apps: [0, 255]\n  modes: [queue, uid]\n"):             "a-service get: queue of apps 0, 255; uid, no limit",
		one("a", "  names: [orders, pre*]\n"):                             "a-service get: lease of names orders, pre*, no limit",
		one("a", "  names: '*'\n  modes: [lease, uid]\n"):                 "a-service get: uid; lease of names *, no limit",
		one("a", "  spaces: [chat, pre*]\n"):                              "a-service get: sequence of spaces chat, pre*, no limit",
		one("a", "  spaces: '*'\n  modes: [sequence]\n"):                  "a-service get: sequence of spaces *, no limit",
		one("a", "  tags: [orders, pre*]\n"):                              "a-service get: segment of tags orders, pre*, no limit",
		one("a", "  tags: '*'\n  modes: [snowflake, segment]\n"):          "a-service get: segment of tags *; snowflake, no limit",
		one("a", "  modes: [uid]\n  rate: 0.5\n"):                         "a-service get: uid, 0.5 a second, 1 at once",
		one("a", "  modes: [uid]\n  rate: 100\n  burst: 7\n"):             "a-service get: uid, 100 a second, 7 at once",
		one("a", "  modes: [uid]\n  ids_per_second: 5\n"):                 "a-service get: uid, no limit, 5 IDs a second",
		one("a", "  expires: 2027-01-31\n"):                               "a-service get: nothing but monitoring, no limit, until 2027-01-31T00:00:00Z",
		one("a", "  expires: '2027-01-31T08:00:00+08:00'\n"):              "a-service get: nothing but monitoring, no limit, until 2027-01-31T00:00:00Z",
		one("a", "") + one("b", ""):                                       "a-service get: nothing but monitoring, no limit\nb-service get: nothing but monitoring, no limit",
		"- {name: x, sha256: '" + sumOf("x") + "', role: admin, rate: 1}": "x admin: administration, 1 a second, 1 at once",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		if got := shown(tokens); err != nil || got != want {
			t.Errorf("%q:\ngot  %s, %v\nwant %s", text, got, err, want)
		}
	}
}

func shown(tokens []*Token) string {
	var lines []string
	for _, t := range tokens {
		v := t.View()
		line := fmt.Sprintf("%s %s: %s, %s", v.Name, v.Role, v.May, v.Rate)
		if v.Quota != "no limit" {
			line += ", " + v.Quota
		}
		if !v.Expires.IsZero() {
			line += ", until " + v.Expires.UTC().Format("2006-01-02T15:04:05Z07:00")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Each mistake is named with file, line and key, and no text of the file is shown:
// somebody may have written the token there.
func TestParseNamesTheMistake(t *testing.T) {
	const sum = "  sha256: secret\n"
	for text, want := range map[string]string{
		"":                                          "t.yaml:1: has no token: if that is meant, write []",
		"# none yet\n":                              "t.yaml:1: has no token: if that is meant, write []",
		"~":                                         "t.yaml:1: has no token: if that is meant, write []",
		"name: x\n":                                 "t.yaml:1: is not a list",
		strings.Repeat("[", 100_000):                "t.yaml:1: is not YAML: exceeded max depth of 10000",
		"- secret\n":                                "t.yaml:1: is no token",
		"- name: x\n---\n- name: y\n":               "t.yaml:2: begins a second document",
		"- name: 'x\n":                              "t.yaml:2: is not YAML",
		"\xff":                                      "t.yaml:1: is not UTF-8",
		strings.Repeat(" ", yamlfile.MaxBytes+1):    "t.yaml:1: is larger than 1 MiB",
		strings.Repeat("- x\n", maxTokens+1):        "t.yaml:1: has 10001 tokens, at most 10000",
		"# a\n- role: get\n  name: x\n":             "t.yaml:2: sha256: is missing",
		"- name: x\n" + sum:                         "t.yaml:2: sha256: is not a SHA-256",
		"- sha256: " + sumOf("a") + "00\n":          "t.yaml:1: sha256: is not a SHA-256",
		"- sha256: [secret]\n":                      "t.yaml:1: sha256: is not a SHA-256",
		"- name: secret secret\n":                   "t.yaml:1: name: is not 1 to 64 of letters",
		"- name: &a secret\n":                       "t.yaml:1: name: is not 1 to 64 of letters",
		"- name: admin\n":                           "t.yaml:1: name: is the name of server.admin_token",
		"- name: x\n  name: y\n":                    "t.yaml:2: name: is there twice",
		"- name: x\n  token: secret\n":              "t.yaml:2: token: unknown key",
		"- token:secret: x\n":                       "t.yaml:1: token: unknown key",
		"- role: secret\n":                          "t.yaml:1: role: is neither admin nor get",
		"- apps: [1, 256]\n":                        `t.yaml:1: apps: is not "*" or a list of appIds`,
		"- apps: [-1]\n":                            `t.yaml:1: apps: is not "*" or a list of appIds`,
		"- apps: []\n":                              `t.yaml:1: apps: is not "*" or a list of appIds`,
		"- apps: 1\n":                               `t.yaml:1: apps: is not "*" or a list of appIds`,
		"- apps: ['*']\n":                           `t.yaml:1: apps: is not "*" or a list of appIds`,
		"- names: [a/b]\n":                          `t.yaml:1: names: is not "*" or a list of names of worker IDs`,
		one("a", "  modes: [lease]\n"):              "list apps for queue, tags for segment, names for lease and spaces for sequence",
		"- spaces: [a/b]\n":                         `t.yaml:1: spaces: is not "*" or a list of spaces of sequences`,
		"- spaces: chat\n":                          `t.yaml:1: spaces: is not "*" or a list of spaces of sequences`,
		one("a", "  modes: [sequence]\n"):           "modes: has sequence but nothing of it is given",
		one("a", "  spaces: [a]\n  modes: [uid]\n"): "modes: leaves out sequence, of which apps, tags, names or spaces",
		"- tags: ['']\n":                            `t.yaml:1: tags: is not "*" or a list of tags`,
		"- modes: [queue, leaf]\n":                  "t.yaml:1: modes: is not a list of queue",
		"- modes: '*'\n":                            "t.yaml:1: modes: is not a list of queue",
		"- rate: 0\n":                               "t.yaml:1: rate: is not a number of requests a second",
		"- rate: .nan\n":                            "t.yaml:1: rate: is not a number of requests a second",
		"- rate: 1000001\n":                         "t.yaml:1: rate: is not a number of requests a second",
		"- ids_per_second: 0\n":                     "t.yaml:1: ids_per_second: is not a whole number of IDs, 1…1000000000000: remove the key for no limit",
		"- ids_per_second: 0.5\n":                   "t.yaml:1: ids_per_second: is not a whole number",
		"- ids_per_second: -1\n":                    "t.yaml:1: ids_per_second: is not a whole number of IDs",
		"- ids_per_second: 1e6\n":                   "t.yaml:1: ids_per_second: is not a whole number of IDs",
		"- ids_per_second: [secret]\n":              "t.yaml:1: ids_per_second: is not a whole number of IDs",
		"- ids_per_day: secret\n":                   "t.yaml:1: ids_per_day: was removed: use ids_per_second",
		"- burst: 0\n":                              "t.yaml:1: burst: is not a number of requests, 1…1000000",
		"- expires: 2027-02-30\n":                   "t.yaml:1: expires: is not a date",
		one("a", "  burst: 5\n"):                    "t.yaml:4: burst: needs a rate",
		one("a", "  modes: [queue]\n"):              "t.yaml:4: modes: has queue but nothing of it is given",
		one("a", "  apps: [1]\n  modes: [uid]\n"):   "t.yaml:5: modes: leaves out queue",
		one("a", "") + one("a", ""):                 "t.yaml:5: sha256: is there twice",
		strings.Replace(one("a", "  apps: [1]\n"), "get", "admin", 1):         "t.yaml:4: apps: is for the role get",
		strings.Replace(one("a", "  spaces: [a]\n"), "get", "admin", 1):       "t.yaml:4: spaces: is for the role get",
		strings.Replace(one("a", "  ids_per_second: 1\n"), "get", "admin", 1): "t.yaml:4: ids_per_second: is for the role get",
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
}

func TestReadFileThatCannotBeRead(t *testing.T) {
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "none: cannot be read: no such file or directory: give the service a file that it may read",
		os.TempDir():                       "cannot be read: it is a directory and no regular file: give the service a file that it may read",
	} {
		if _, err := ReadFile(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
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
	f.Add(one("a", "  apps: [1]\n  tags: ['x*']\n  spaces: [c*]\n  modes: [queue, segment, sequence]\n  rate: 5\n  expires: 2027-01-31\n"))
	f.Add("- {name: x, sha256: &a 1, role: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := Parse("t.yaml", []byte(text))
		if err != nil && (tokens != nil || strings.ContainsAny(err.Error(), "\r\n")) {
			t.Errorf("%v, %v", tokens, err)
		}
		for _, token := range tokens {
			if !tokenName.MatchString(token.name) || token.sum == (digest{}) || token.role == RoleAdmin && token.modes != 0 {
				t.Errorf("%+v", token)
			}
		}
	})
}
