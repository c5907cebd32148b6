// Package yamlfile reads the YAML files that operators write: the configuration, the tokens and lists of apps. It gives
// the tree of the library; a value is the text that was written, whose type is the reader's business. An error is one
// line with file and line, and shows no text of the file, which may hold a secret.
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
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxBytes is the size of the largest file that is read, 256 KiB: the library takes about a second for it.
const MaxBytes = 256 << 10

// Read is Parse of a file. For one that cannot be read the error wraps the system's, so that fs.ErrNotExist is found in
// it.
func Read(name string) (ast.Node, error) {
	file, err := os.Open(name) //nolint:gosec // the operator names the file
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(file, MaxBytes+1))
		err = errors.Join(err, file.Close())
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot be read: %w: name a file that this user may read", shown(name), err)
	}
	return Parse(name, data)
}

// Parse gives the root of the only document of data, nil when there is nothing but comments. A key that is there
// twice is the reader's business, too.
func Parse(name string, data []byte) (ast.Node, error) {
	switch {
	case len(data) > MaxBytes:
		return nil, Fail(name, nil, "is larger than 256 KiB: check the name of the file")
	case !utf8.Valid(data):
		return nil, Fail(name, nil, "is not UTF-8 text: save it as UTF-8")
	}
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\uFEFF")), 0, parser.AllowDuplicateMapKey())
	if syntax, ok := errors.AsType[yaml.Error](err); ok {
		problem := regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(syntax.GetMessage(), "…")
		return nil, fmt.Errorf("%s:%d: is not YAML: %s: check indentation (by spaces, not tabs), colons and quotes "+
			"around this line", shown(name), syntax.GetToken().Position.Line, problem)
	} else if err != nil {
		return nil, Fail(name, nil, "is not YAML")
	}
	if len(file.Docs) > 1 {
		return nil, Fail(name, file.Docs[1], "begins a second document: keep one, without ---")
	}
	if root := file.Docs[0].Body; root != nil && root.Type() != ast.NullType {
		return root, nil
	}
	return nil, nil //nolint:nilnil // nothing is no error of YAML
}

// Text is a text, a number or a boolean as it was written; ok is false for nothing, for a list or a map, and for what
// has an anchor or a tag.
func Text(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// Fail is an error about what is at a node, or about the file when there is no node.
func Fail(name string, at ast.Node, problem string) error {
	return fmt.Errorf("%s: %s", At(name, at), problem)
}

// At is file and line of a node for messages.
func At(name string, at ast.Node) string {
	line := 1
	if at != nil {
		line = at.GetToken().Position.Line
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
