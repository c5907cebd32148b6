package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// setNode reads the value of a key from the file. Unlike a variable, it has a
// type of its own, which must be the key's.
func (k configKey) setNode(node ast.Node) error {
	switch p := k.value.Addr().Interface().(type) {
	case *[]string:
		return k.setSequence(p, node)
	case *map[string]int:
		return k.setMapping(p, node)
	}
	text, found := scalar(node)
	want, advice := k.wants()
	if found == want || want == isNumber && isBare(node) {
		return k.set(text)
	}
	return mismatch(found, k.kind(), advice)
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

// isBare says whether the node is text without quotes, which is what the
// parser makes of a number that it cannot hold.
func isBare(node ast.Node) bool {
	return node.Type() == ast.StringType && node.GetToken().Type == token.StringType
}

func (k configKey) setSequence(target *[]string, node ast.Node) error {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		_, found := scalar(node)
		return mismatch(found, isList, `write ["host:port", "host:port"]`)
	}
	*target = nil
	for _, item := range list.Values {
		text, found := scalar(item)
		if found != isText {
			return fmt.Errorf(`holds %s where text belongs: write ["host:port", "host:port"]`, found)
		}
		*target = append(*target, text)
	}
	return nil
}

func (k configKey) setMapping(target *map[string]int, node ast.Node) error {
	entries, ok := mapping(node)
	if !ok {
		_, found := scalar(node)
		return mismatch(found, isMap, `write {"ip:port": number}`)
	}
	var pairs []string
	for _, entry := range entries {
		text, found := scalar(entry.Value)
		if _, key := scalar(entry.Key); found != isNumber || key != isText {
			return errors.New(`holds something else than text with a whole number: write {"ip:port": number}`)
		}
		pairs = append(pairs, keyName(entry)+"="+text)
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

// scalar is the text of a value and what it is.
func scalar(node ast.Node) (text, found string) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, isText
	case *ast.LiteralNode:
		return n.Value.Value, isText
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, isNumber
	case *ast.BoolNode:
		return n.GetToken().Value, isBoolean
	case *ast.NullNode:
		return "", isEmpty
	case *ast.MappingNode, *ast.MappingValueNode:
		return "", isMap
	case *ast.SequenceNode:
		return "", isList
	default:
		return "", isOther
	}
}

// wants is what a scalar must be in the file, and how to write it.
func (k configKey) wants() (found, advice string) {
	switch k.value.Interface().(type) {
	case bool:
		return isBoolean, "write true or false"
	case int, int64, float64:
		return isNumber, "write it like " + k.std
	case string:
		return isText, "write one text, in quotes"
	case Interval:
		return isText, "write off or a number with its unit such as 5m"
	default:
		return isText, "write it like " + k.std
	}
}

// kind names the type of a scalar key.
func (k configKey) kind() string {
	switch k.value.Interface().(type) {
	case time.Duration:
		return "a duration"
	case Interval:
		return "an interval"
	case Date:
		return "a date"
	}
	found, _ := k.wants()
	return found
}

// mapping is the entries of a block or flow mapping.
func mapping(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}

// keyName is the key of an entry as text.
func keyName(entry *ast.MappingValueNode) string {
	if text, found := scalar(entry.Key); found == isText {
		return text
	}
	return strings.TrimSpace(entry.Key.GetToken().Value)
}
