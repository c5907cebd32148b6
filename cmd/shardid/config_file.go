package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"shardid/service/yamlfile"

	"go.yaml.in/yaml/v3"
)

func (l *loader) readFile(file string, explicit bool) error {
	data, err := yamlfile.Read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !explicit:
		return nil
	case err != nil:
		return fmt.Errorf("%w: name a readable file with --config", err)
	}
	return l.parse(file, data)
}

// parse lays the YAML of data over the configuration. The nodes are walked by hand so
// that every value keeps its line and no text of the file, which may hold a secret, gets
// into a message.
func (l *loader) parse(file string, data []byte) error {
	root, err := yamlfile.Parse(file, data)
	switch {
	case err != nil || root == nil:
		return err
	case root.Kind != yaml.MappingNode:
		return yamlfile.Fail(file, root, "", "has no keys at its top: write sections such as server: with keys indented below")
	}
	return l.section(file, "", root)
}

// section reads the keys of a mapping; prefix is "" or its path and a dot.
func (l *loader) section(file, prefix string, mapping *yaml.Node) error {
	seen := map[string]bool{}
	for pair := range slices.Chunk(mapping.Content, 2) {
		name, value := yamlfile.Text(pair[0]), pair[1]
		path, shown := prefix+name, prefix+showName(name)
		at := origin{where: yamlfile.At(file, pair[0]), file: true}
		if seen[name] {
			return at.fail(shown, errors.New("is there twice: keep one"))
		}
		seen[name] = true
		i := slices.IndexFunc(l.keys, func(k configKey) bool { return k.path == path || strings.HasPrefix(k.path, path+".") })
		switch {
		case i < 0 || strings.Contains(name, "."):
			return at.fail(shown, errors.New("unknown key: "+l.near(prefix, name)))
		case l.keys[i].path == path:
			if err := l.keys[i].setNode(value); err != nil {
				return at.fail(path, err)
			}
			l.origins[path] = at
		case value.ShortTag() == "!!null":
		case value.Kind != yaml.MappingNode || !yamlfile.Plain(value):
			return at.fail(path, errors.New("is a section: write its keys on the lines below it, indented"))
		default:
			if err := l.section(file, path+".", value); err != nil {
				return err
			}
		}
	}
	return nil
}

// near is the advice for a key that does not exist: the likeliest that does.
func (l *loader) near(prefix, name string) string {
	if first, rest, dotted := strings.Cut(name, "."); dotted && showName(name) == name {
		return fmt.Sprintf("write %s: on one line and %s: below it, indented", first, rest)
	}
	var names, elsewhere []string
	for _, k := range l.keys {
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

// setNode reads the value of a key from the file. Unlike a variable, it has a type of its
// own, which must be the key's.
func (k configKey) setNode(node *yaml.Node) error {
	found, want, advice := typeOf(node), isText, "write it like "+k.std
	kind := want
	switch p := k.value.Addr().Interface().(type) {
	case *[]string:
		return k.setSequence(p, node)
	case *map[string]int:
		return k.setMapping(p, node)
	case *string:
		advice = "write one text, in quotes"
	case *bool:
		want, kind, advice = isBoolean, isBoolean, "write true or false"
	case *int, *int64, *float64:
		want, kind = isNumber, isNumber
	case *time.Duration:
		kind = "a duration"
	case *Interval:
		kind, advice = "an interval", "write off or a number with its unit such as 5m"
	case *Date:
		kind = "a date"
	}
	if found == want || want == isNumber && found == isText && node.Style == 0 { // text without quotes: set says what is wrong with it
		return k.set(node.Value)
	}
	return mismatch(found, kind, advice)
}

// mismatch says that the file holds one type where another belongs.
func mismatch(found, want, advice string) error {
	switch found {
	case isEmpty:
		return errors.New("is empty: write a value, or remove the line for the default")
	case isOther:
		return errors.New("is an anchor, alias or tag: write the value itself")
	default:
		return fmt.Errorf("is %s, not %s: %s", found, want, advice)
	}
}

func (k configKey) setSequence(target *[]string, node *yaml.Node) error {
	if found := typeOf(node); found != isList {
		return mismatch(found, isList, `write ["host:port", "host:port"]`)
	}
	*target = nil
	for _, item := range node.Content {
		if found := typeOf(item); found != isText {
			return fmt.Errorf(`holds %s where text belongs: write ["host:port", "host:port"]`, found)
		}
		*target = append(*target, item.Value)
	}
	return nil
}

func (k configKey) setMapping(target *map[string]int, node *yaml.Node) error {
	if found := typeOf(node); found != isMap {
		return mismatch(found, isMap, `write {"ip:port": number}`)
	}
	var pairs []string
	for pair := range slices.Chunk(node.Content, 2) {
		if typeOf(pair[0]) != isText || typeOf(pair[1]) != isNumber {
			return errors.New(`holds something else than text with a whole number: write {"ip:port": number}`)
		}
		pairs = append(pairs, pair[0].Value+"="+pair[1].Value)
	}
	return setPairs(target, pairs)
}

// What a value of the file turns out to be.
const (
	isText    = "text"
	isNumber  = "a number"
	isBoolean = "a boolean"
	isMap     = "a map"
	isList    = "a list"
	isEmpty   = "empty"
	isOther   = "an anchor, alias or tag"
)

func typeOf(node *yaml.Node) string {
	if !yamlfile.Plain(node) {
		return isOther
	}
	switch node.ShortTag() {
	case "!!str", "!!timestamp":
		return isText
	case "!!int", "!!float":
		return isNumber
	case "!!bool":
		return isBoolean
	case "!!map":
		return isMap
	case "!!seq":
		return isList
	case "!!null":
		return isEmpty
	default:
		return isOther
	}
}
