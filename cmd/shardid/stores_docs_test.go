package main

import (
	"os"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// TestProductsAreDocumented: docs/stores.md has a row for each product that doctor
// knows, in the same order, with its verdict and advice.
func TestProductsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/stores.md")
	check.Must(t, err)
	_, table, _ := strings.Cut(string(page), "| recognised by |\n|---|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != len(model.Products()) {
		t.Fatalf("docs/stores.md has %d rows, doctor knows %d products", len(rows), len(model.Products()))
	}
	for i, p := range model.Products() {
		cells := strings.Split(rows[i], " | ")
		if len(cells) != 6 || !strings.HasPrefix(cells[0], "| ["+p.Name+"](https://") || cells[3] != string(p.Verdict) || cells[4] != p.Advice {
			t.Errorf("docs/stores.md says %s\nof %+v", rows[i], p)
		}
	}
}
