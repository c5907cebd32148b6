package yamlfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
)

// What is read has a root, and what is not YAML an error with its line and no text of the file.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "nothing",
		"# only this\n":     "nothing",
		"---\n":             "nothing",
		"null":              "nothing",
		"\uFEFFa: 1\n":      "Mapping",
		"[]":                "Sequence",
		"---\na\n":          "String",
		"a: 1\na: 2\n":      "Mapping",
		"a: [\n\t1]\n":      "Mapping",
		"a: 1\n---\nb: 2\n": "f.yaml:3: begins a second document: keep one, without ---",
		"a:\n\tb: secret\n": "f.yaml:2: is not YAML: found character … that cannot start any token: check indentation (by " +
			"spaces, not tabs), colons and quotes around this line",
		"a:\n  b: @secret\n":                "f.yaml:2: is not YAML: … is a reserved character: check",
		"a: 'secret\n":                      "f.yaml:1: is not YAML: could not find end character",
		"a: secret: x\n":                    "f.yaml:1: is not YAML: mapping value is not allowed in this context",
		"\xff":                              "f.yaml:1: is not UTF-8 text: save it as UTF-8",
		"#" + strings.Repeat(" ", MaxBytes): "f.yaml:1: is larger than 256 KiB: check the name of the file",
	} {
		root, err := Parse("f.yaml", []byte(text))
		got := "nothing"
		switch {
		case err != nil:
			got = err.Error()
		case root != nil:
			got = root.Type().String()
		}
		if !strings.HasPrefix(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%.40q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	const advice = ": name a file that this user may read"
	for name, want := range map[string]string{
		filepath.Join(dir, "none"): "none: cannot be read: no such file or directory" + advice,
		dir:                        ": cannot be read: is a directory" + advice,
		"a\nb":                     `"a\nb": cannot be read: no such file or directory` + advice,
	} {
		_, err := Read(name)
		if err == nil || !strings.HasSuffix(err.Error(), want) || errors.Is(err, fs.ErrNotExist) != (name != dir) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"a b": "a b", "'7'": "7", "7": "7", "1.50": "1.50", "010": "010", "2027-01-31": "2027-01-31", "true": "true",
		"|\n  two\n  lines\n": "two\nlines\n",
		"~":                   "none", "[a]": "none", "{a: b}": "none", "&a x": "none", "!!str x": "none", "*x": "none",
	} {
		root, err := Parse("f.yaml", []byte("k: "+text))
		if err != nil {
			t.Fatal(text, err)
		}
		got, ok := Text(root.(*ast.MappingNode).Values[0].Value)
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
