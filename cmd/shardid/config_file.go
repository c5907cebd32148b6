package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxConfigBytes is the largest file that is read: 1 MiB.
const maxConfigBytes = 1 << 20

func (l *loader) readFile(file string, explicit bool) error {
	if file == "" && !explicit {
		file = defaultConfigFile
	}
	data, err := readLimited(file)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: cannot be read: %w: name a readable file with --config", fileName(file), rootCause(err))
	}
	return l.parse(file, data)
}

func readLimited(file string) ([]byte, error) {
	f, err := os.Open(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	return data, errors.Join(err, f.Close())
}

// rootCause is err without the path that the message names already.
func rootCause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// fileName is the name for messages: as given, quoted when it is empty or
// would break the line.
func fileName(file string) string {
	if quoted := fmt.Sprintf("%q", file); file == "" || quoted != `"`+file+`"` {
		return quoted
	}
	return file
}

// parse lays the YAML of data over the configuration. The syntax tree is walked
// by hand so that every value keeps its line and no source text, which may hold
// a secret, gets into a message.
func (l *loader) parse(file string, data []byte) error {
	d := document{loader: l, file: fileName(file)}
	if len(data) > maxConfigBytes {
		return d.fail(nil, "", "is larger than 1 MiB: this is not a configuration file")
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if !utf8.Valid(data) {
		return d.fail(nil, "", "is not UTF-8 text: save it as UTF-8")
	}
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return d.syntax(err)
	}
	if len(tree.Docs) > 1 {
		return d.fail(tree.Docs[1].Start, "", "begins a second document: keep one, without ---")
	}
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			return d.section("", doc.Body)
		}
	}
	return nil
}

// document is one file on its way into the loader.
type document struct {
	*loader
	file string
}

func (d document) at(t *token.Token) origin {
	line := 1
	if t != nil && t.Position != nil {
		line = max(1, t.Position.Line)
	}
	return origin{where: fmt.Sprintf("%s:%d", d.file, line), file: true}
}

func (d document) fail(t *token.Token, path, problem string) error {
	return d.at(t).fail(path, errors.New(problem))
}

// syntax is the parser's complaint without the source and the quoted parts.
func (d document) syntax(err error) error {
	problem, t := "cannot be parsed", (*token.Token)(nil)
	var bad *yaml.SyntaxError
	if errors.As(err, &bad) {
		t = bad.GetToken()
		problem, _, _ = strings.Cut(bad.GetMessage(), `"`)
	}
	problem = strings.Join(strings.Fields(problem), " ")
	return d.fail(t, "", "is not YAML: "+problem+": check indentation, colons and quotes around this line")
}

// section reads the keys of a mapping; prefix is "" or its path and a dot.
func (d document) section(prefix string, node ast.Node) error {
	entries, ok := mapping(node)
	path := strings.TrimSuffix(prefix, ".")
	if !ok && path == "" {
		return d.fail(node.GetToken(), "", "has no keys at its top: write sections such as server: with keys indented below")
	}
	if !ok {
		return d.fail(node.GetToken(), path, "is a section: write its keys on the lines below it, indented")
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		name := keyName(entry)
		if seen[name] {
			return d.fail(entry.Key.GetToken(), prefix+showName(name), "is there twice: keep one")
		}
		seen[name] = true
		if err := d.entry(prefix, name, entry); err != nil {
			return err
		}
	}
	return nil
}

func (d document) entry(prefix, name string, entry *ast.MappingValueNode) error {
	path, at := prefix+name, d.at(entry.Key.GetToken())
	for _, k := range d.keys {
		switch {
		case strings.Contains(name, "."):
		case k.path == path:
			if err := k.setNode(entry.Value); err != nil {
				return at.fail(path, err)
			}
			d.origins[path] = at
			return nil
		case strings.HasPrefix(k.path, path+"."):
			if _, empty := entry.Value.(*ast.NullNode); empty {
				return nil
			}
			return d.section(path+".", entry.Value)
		}
	}
	return at.fail(prefix+showName(name), errors.New("unknown key: "+d.near(prefix, name)))
}

// near is the advice for a key that does not exist: the likeliest that does.
func (d document) near(prefix, name string) string {
	if first, rest, dotted := strings.Cut(name, "."); dotted && showName(name) == name {
		return fmt.Sprintf("write %s: on one line and %s: below it, indented", first, rest)
	}
	var names, elsewhere []string
	for _, k := range d.keys {
		names = append(names, k.path)
		if section, _, nested := strings.Cut(k.path, "."); nested {
			names = append(names, section)
		}
		if strings.HasSuffix(k.path, "."+name) {
			elsewhere = append(elsewhere, k.path)
		}
	}
	if len(elsewhere) == 1 {
		return "did you mean " + elsewhere[0] + "?"
	}
	return didYouMean(prefix+name, names, 1+len(name)/3, "remove it, or "+docHint)
}
