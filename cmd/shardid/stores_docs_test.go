package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"shardid/model"
)

// TestProductsAreDocumented: docs/stores.md has the table that doctor goes by, row for
// row. On a mismatch the rows to paste are in the message.
func TestProductsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, p := range model.Products() {
		fmt.Fprintf(&rows, "| [%s](%s) | %s | %s | %s | %s | %s |\n", p.Name, p.Source, p.Asks, p.Says, p.Verdict, p.Advice, cmp.Or(p.Told, "nothing; it does not tell"))
	}
	const head = "| recognised by |\n|---|---|---|---|---|---|\n"
	if !strings.Contains(string(page), head+rows.String()+"\n") {
		t.Errorf("docs/stores.md has not these rows:\n%s", rows.String())
	}
}
