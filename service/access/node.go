package access

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

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

// text is a scalar as it is written; "" for what is none, or is an anchor, an alias
// or a tag.
func text(node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	default:
		return ""
	}
}

func isStar(node ast.Node) bool {
	s, ok := node.(*ast.StringNode)
	return ok && s.Value == "*"
}

// each gives the items of a list to use, and answers problem when it is none, is
// empty, or use refuses an item.
func each(node ast.Node, use func(item string) bool, problem string) string {
	list, ok := node.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return problem
	}
	for _, item := range list.Values {
		if s := text(item); s == "" || !use(s) {
			return problem
		}
	}
	return ""
}

// shorten is the part of an unknown key that reads like one: what follows may be a
// token.
func shorten(key string) string {
	const most = 20
	end := strings.IndexFunc(key, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(key)
	}
	if end = min(end, most); end < len(key) {
		return key[:end] + "…"
	}
	return key
}
