package yamlfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"shardid/scripts/check"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "nothing",
		"# only this\n":     "nothing",
		"---\n":             "nothing",
		"null":              "nothing",
		"\uFEFFa: 1\n":      "!!map",
		"[]":                "!!seq",
		"---\na\n":          "!!str",
		"a: 1\n---\nb: 2\n": "f.yaml:2: begins a second document: keep one, without ---",
		"[]\n[]\n": "f.yaml:1: is not YAML: did not find expected <document start>: check " +
			"indentation, colons and quotes around this line",
		"a:\n\tb: secret\n":         "f.yaml:2: is indented by a tab: use spaces",
		"\ta: secret\n":             "f.yaml:1: is indented by a tab: use spaces",
		"a:\n  b: 1\n\tc: secret\n": "f.yaml:3: is indented by a tab: use spaces",
		"a:\n  - x\n  \t- y\n":      "f.yaml:3: is indented by a tab: use spaces",
		"a: 1\n\n\tb: 2\n":          "f.yaml:3: is indented by a tab: use spaces",
		"a: [\n\t1]\n":              "!!map",
		"a:\n  b: @x\n": "f.yaml:2: is not YAML: found character that cannot start any token: check " +
			"indentation, colons and quotes around this line",
		"a: *secret\n": "f.yaml:1: is not YAML: unknown anchor: check indentation, " +
			"colons and quotes around this line",
		"\xff":                              "f.yaml:1: is not UTF-8 text: save it as UTF-8",
		"#" + strings.Repeat(" ", MaxBytes): "f.yaml:1: is larger than 1 MiB: check the name of the file",
	} {
		root, err := Parse("f.yaml", []byte(text))
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
		case root != nil:
			got = root.ShortTag()
		}
		if got != want || strings.Contains(got, "secret") {
			t.Errorf("%.40q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// What is made to keep a parser busy is refused at once, or read at once.
func TestParseIsQuick(t *testing.T) {
	for _, part := range []string{"[", "{", "- ", "? ", "{a: ", "[[1],", "a: b\n", "a:\n", "- x\n", "&a ", "!!x ",
		"*a ", "\"", "|\n", "# x\n", "-\n "} {
		begun := time.Now()
		_, err := Parse("f.yaml", []byte(strings.Repeat(part, 100_000)))
		// An idle machine takes half a second; a quadratic parser takes minutes.
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%q: %v, %v", part, took, err)
		}
		if deep := strings.ContainsAny(part, "[{?") ||
			part == "- "; deep != (err != nil && strings.Contains(err.Error(), "exceeded max depth")) {
			t.Errorf("%q: %v", part, err)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasSuffix(err.Error(), "none: cannot be read: no such file or directory") {
		t.Error(err)
	}
	if _, err := Read(dir); err == nil || !strings.HasSuffix(err.Error(), ": cannot be read: is a directory") {
		t.Error(err)
	}
	if _, err := Read("a\nb"); err == nil || !strings.HasPrefix(err.Error(), `"a\nb": cannot be read`) {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	check.Must(t, os.WriteFile(file, make([]byte, MaxBytes+100), 0o600))
	if data, err := Read(file); err != nil || len(data) != MaxBytes+1 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"a b": "a b", "'7'": "7", "7": "7", "1.50": "1.50", "2027-01-31": "2027-01-31",
		"true": "", "~": "", "[a]": "", "{a: b}": "", "&a x": "", "!!str x": "", "|\n  two\n  lines\n": "two\nlines\n",
	} {
		root, err := Parse("f.yaml", []byte("k: "+text))
		check.Must(t, err)
		check.Equal(t, Text(root.Content[1]), want, text)
	}
	check.Equal(t, Text(&yaml.Node{Kind: yaml.AliasNode, Value: "x"}), "", "an alias has a text")
}
