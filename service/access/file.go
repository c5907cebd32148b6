package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"shardid/model"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file: it is read every few seconds by whoever writes it again and
// again.
const (
	maxFileBytes = 1 << 20
	maxTokens    = 10_000
)

// ReadFile reads the tokens of a file. Errors: model.ErrInvalidArgument with file,
// line and key, in one line that quotes nothing that could be a token.
func ReadFile(name string) ([]*Token, error) {
	data, err := readLimited(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: cannot be read: %w", model.ErrInvalidArgument, name, rootCause(err))
	}
	return Parse(name, data)
}

func readLimited(name string) ([]byte, error) {
	f, err := os.Open(name) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	return data, errors.Join(err, f.Close())
}

// rootCause is err without the path that the message names already.
func rootCause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Parse is ReadFile for what is read already; name is for messages.
func Parse(name string, data []byte) ([]*Token, error) {
	d := document{file: name}
	switch {
	case len(data) > maxFileBytes:
		return nil, d.fail(nil, "", "is larger than 1 MiB: this is no file of tokens")
	case !utf8.Valid(data):
		return nil, d.fail(nil, "", "is not UTF-8 text: save it as UTF-8")
	}
	tree, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\uFEFF")), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, d.syntax(err)
	}
	return d.tokens(tree)
}

// document is one file. The syntax tree is walked by hand, so that each value keeps
// its line and no text of the file gets into a message by itself.
type document struct{ file string }

func (d document) fail(at *token.Token, key, problem string) error {
	line := 1
	if at != nil && at.Position != nil {
		line = max(1, at.Position.Line)
	}
	if key != "" {
		key += ": "
	}
	return fmt.Errorf("%w: %s:%d: %s%s", model.ErrInvalidArgument, d.file, line, key, problem)
}

// syntax is the parser's complaint without the source and the quoted parts.
func (d document) syntax(err error) error {
	problem, at := "cannot be parsed", (*token.Token)(nil)
	var bad *yaml.SyntaxError
	if errors.As(err, &bad) {
		at = bad.GetToken()
		problem, _, _ = strings.Cut(bad.GetMessage(), `"`)
	}
	problem = strings.Join(strings.Fields(problem), " ")
	return d.fail(at, "", "is not YAML: "+problem+": check indentation, colons and quotes around this line")
}

// tokens reads the list.
func (d document) tokens(tree *ast.File) ([]*Token, error) {
	if len(tree.Docs) > 1 {
		return nil, d.fail(tree.Docs[1].Start, "", "begins a second document: keep one, without ---")
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil {
		return nil, nil
	}
	list, ok := tree.Docs[0].Body.(*ast.SequenceNode)
	switch {
	case isNothing(tree.Docs[0].Body):
		return nil, nil
	case !ok:
		return nil, d.fail(tree.Docs[0].Body.GetToken(), "", "is not a list: begin each token with - name:")
	case len(list.Values) > maxTokens:
		return nil, d.fail(nil, "", fmt.Sprintf("has %d tokens, at most %d are allowed", len(list.Values), maxTokens))
	}
	return d.list(list.Values)
}

// isNothing says whether a document has comments at most.
func isNothing(node ast.Node) bool {
	_, null := node.(*ast.NullNode)
	_, comment := node.(*ast.CommentGroupNode)
	return null || comment
}

func (d document) list(nodes []ast.Node) ([]*Token, error) {
	var all []*Token
	seen := map[digest]bool{}
	for _, node := range nodes {
		e := entry{document: d, at: node.GetToken(), token: &Token{}, lines: map[string]*token.Token{}}
		if err := e.read(node); err != nil {
			return nil, err
		}
		if seen[e.token.sum] {
			return nil, d.fail(e.lines[keySum], keySum, "is there twice: keep one")
		}
		seen[e.token.sum] = true
		all = append(all, e.token)
	}
	return all, nil
}
