package metrics_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

// document is where the table is, between its two marks.
const (
	document = "../../docs/metrics.md"
	begin    = "<!-- table: go test ./service/metrics -update -->\n"
	end      = "<!-- end of the table -->\n"
)

// The table of docs/metrics.md has every metric of ours, as a scrape shows it.
func TestDocument(t *testing.T) {
	raw, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no table", document)
	}
	want := head + begin + table(t) + end + tail
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(raw) != want {
		t.Errorf("%s is not what is exported: go test ./service/metrics -run TestDocument -update", document)
	}
}

// table is Markdown, by name.
func table(t *testing.T) string {
	body := scrape(t, full())
	labels := labelsOf(body)
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (shardid_\w+) (\w+)$`).FindAllStringSubmatch(body, -1) {
		types[m[1]] = m[2]
	}
	var out strings.Builder
	out.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, m := range regexp.MustCompile(`(?m)^# HELP (shardid_\w+) (.*)$`).FindAllStringSubmatch(body, -1) {
		if len(m[2]) < 10 || !strings.HasSuffix(m[2], ".") && !strings.Contains(m[2], ": ") {
			t.Errorf("%s: the help %q is no sentence", m[1], m[2])
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", m[1], types[m[1]], strings.Join(labels[m[1]], ", "), m[2])
	}
	return out.String()
}

// labelsOf has the labels of each metric but those that every histogram has.
func labelsOf(body string) map[string][]string {
	found := map[string]map[string]bool{}
	pair := regexp.MustCompile(`(\w+)="`)
	for _, m := range regexp.MustCompile(`(?m)^(shardid_\w+)\{(.*)\} `).FindAllStringSubmatch(body, -1) {
		name := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m[1], "")
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
			if p[1] != "le" {
				found[name][p[1]] = true
			}
		}
	}
	out := map[string][]string{}
	for name, labels := range found {
		out[name] = slices.Sorted(maps.Keys(labels))
	}
	return out
}
