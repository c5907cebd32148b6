// Package yamlfile reads the YAML files that operators write: the configuration and the
// tokens. Its errors are one line with file and line, and never show text of the file,
// which may hold a secret.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the size of the largest file that is read: 1 MiB.
const MaxBytes = 1 << 20

// Read reads a file up to one byte more than MaxBytes. The error wraps the system's, so
// that fs.ErrNotExist is found in it, and gives no advice.
func Read(name string) ([]byte, error) {
	file, err := os.Open(name) //nolint:gosec // the operator names the file
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(file, MaxBytes+1))
		err = errors.Join(err, file.Close())
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, fmt.Errorf("%s: cannot be read: %w", shown(name), path.Err)
	}
	return data, err
}

// Parse gives the root of the only document of data, nil when there is nothing but
// comments. It takes a second for 1 MiB and refuses what is nested 10,000 deep.
func Parse(name string, data []byte) (*yaml.Node, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	switch {
	case len(data) > MaxBytes:
		return nil, Fail(name, nil, "", "is larger than 1 MiB: check the name of the file")
	case !utf8.Valid(data):
		return nil, Fail(name, nil, "", "is not UTF-8 text: save it as UTF-8")
	}
	var first, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return nil, nil //nolint:nilnil // nothing is no error of YAML
	case err != nil:
		return nil, syntax(name, data, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, Fail(name, &second, "", "begins a second document: keep one, without ---")
	case !errors.Is(err, io.EOF):
		return nil, syntax(name, data, err)
	}
	if root := first.Content[0]; root.ShortTag() != "!!null" {
		return root, nil
	}
	return nil, nil //nolint:nilnil // nothing is no error of YAML
}

// syntax is the parser's complaint without the names that it quotes.
func syntax(name string, data []byte, err error) error {
	found := regexp.MustCompile(`^yaml: (?:line (\d+): )?([^'\n]*)`).FindStringSubmatch(err.Error())
	if found == nil {
		return Fail(name, nil, "", "is not YAML")
	}
	line, _ := strconv.Atoi(found[1])
	for i, text := range bytes.Split(data, []byte("\n")) {
		if at := i + 1; max(1, line) <= at && at <= max(1, line)+1 &&
			tabbed.Match(text) { // the parser may name the line before
			return Fail(name, &yaml.Node{Line: at}, "", "is indented by a tab: use spaces")
		}
	}
	return Fail(name, &yaml.Node{Line: line}, "", "is not YAML: "+strings.TrimSpace(found[2])+": check indentation, "+
		"colons and quotes around this line")
}

// tabbed is a line with a tab in its indentation.
var tabbed = regexp.MustCompile(`^ *\t`)

// Fail says what is wrong with a key at a node; without a node it is about the file,
// without a key about the node.
func Fail(name string, at *yaml.Node, key, problem string) error {
	if key != "" {
		key += ": "
	}
	return fmt.Errorf("%s: %s%s", At(name, at), key, problem)
}

// At is file and line of a node for messages.
func At(name string, at *yaml.Node) string {
	line := 1
	if at != nil {
		line = max(1, at.Line)
	}
	return fmt.Sprintf("%s:%d", shown(name), line)
}

// shown is a file's name, quoted when it is empty or would break the line.
func shown(name string) string {
	if quoted := strconv.Quote(name); name == "" || quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// Plain reports whether a node is a value by itself: no alias, and without anchor and tag.
func Plain(n *yaml.Node) bool {
	return n.Kind != yaml.AliasNode && n.Anchor == "" && n.Style&yaml.TaggedStyle == 0
}

// Text is a text or a number as it is written, "" for anything else.
func Text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || !Plain(n) {
		return ""
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!timestamp":
		return n.Value
	}
	return ""
}
