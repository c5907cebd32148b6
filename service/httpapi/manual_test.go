package httpapi

import (
	"testing"

	"github.com/yuin/goldmark/ast"

	"shardid/scripts/check"
)

// Headings have GitHub's anchors, each once.
func TestAnchors(t *testing.T) {
	taken := anchors{}
	for _, c := range [][2]string{
		{"When `max_id` went back?", "when-max_id-went-back"}, {"告警处理", "告警处理"},
		{"告警处理", "告警处理-1"}, {"告警处理", "告警处理-2"}, {"28 位用完之后", "28-位用完之后"}, {"critical：可能重号，立即处理", "critical可能重号立即处理"},
	} {
		check.Equal(t, string(taken.Generate([]byte(c[0]), ast.KindHeading)), c[1])
	}
}

// What is not part of the binary is named and not linked to.
func TestWithoutOutside(t *testing.T) {
	for _, c := range []struct{ page, text, want string }{
		{"leaf.md", "[a](uid.md#x) [b](#x) [c](zh/uid.md) [d](https://example.com/x)", "[a](uid.md#x) [b](#x) [c](zh/uid.md) [d](https://example.com/x)"},
		{"leaf.md", "[a](../README.md) [b](examples/go-gorm/main.go) [c](none.md) ![d](images/e.png)", "a b c "},
		{"zh/leaf.md", "[a](../uid.md#x) [b](uid.md) [c](../../README.md) [d](../examples/java)", "[a](../uid.md#x) [b](uid.md) c d"},
	} {
		check.Equal(t, string(withoutOutside(c.page, []byte(c.text))), c.want, c.page)
	}
}
