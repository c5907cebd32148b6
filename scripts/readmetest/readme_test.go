package readmetest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const (
	english = "../../README.md"
	chinese = "../../README.zh-CN.md"
)

// section is a heading and what is below it up to the next one.
type section struct {
	level  int
	title  string
	blocks []string // fenced, with their fences
	tables []string // the columns of each row
	links  []string // targets, sorted
	codes  []string // inline code, sorted, each once
	text   string   // the prose, tables included
}

// parse cuts a page into its sections; what is before the first heading is one too.
func parse(text string) []section {
	all, block, table := []section{{}}, "", 0
	for line := range strings.Lines(text) {
		s := &all[len(all)-1]
		switch {
		case strings.HasPrefix(line, "```") && block != "":
			s.blocks, block = append(s.blocks, block+line), ""
			continue
		case strings.HasPrefix(line, "```") || block != "":
			block += line
			continue
		case strings.HasPrefix(line, "|"):
			table++
			s.cells(line, table)
		default:
			table = 0
		}
		if title := strings.TrimLeft(line, "#"); strings.HasPrefix(line, "#") && strings.HasPrefix(title, " ") {
			all = append(all, section{level: len(line) - len(title), title: strings.TrimSpace(title)})
			continue
		}
		s.text += line
	}
	for i := range all {
		all[i].marks()
	}
	return all
}

// cells notes the columns of a row, in the table that its first row began.
func (s *section) cells(line string, row int) {
	columns := strconv.Itoa(strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1)
	if row == 1 {
		s.tables = append(s.tables, columns)
		return
	}
	s.tables[len(s.tables)-1] += " " + columns
}

// marks finds links and inline code in the prose. Links between the translations, and to the
// pages that exist in Chinese, are left out.
func (s *section) marks() {
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(s.text, -1) {
		if m[1] != "README.md" && m[1] != "README.zh-CN.md" && !strings.HasPrefix(m[1], "docs/zh/") {
			// Each page shows the console in its language.
			s.links = append(s.links, strings.Replace(m[1], "/console-zh.png", "/console-light.png", 1))
		}
	}
	s.codes = regexp.MustCompile("`[^`]+`").FindAllString(strings.ReplaceAll(s.text, "\n", " "), -1)
	slices.Sort(s.links)
	slices.Sort(s.codes)
	s.codes = slices.Compact(s.codes) // a sentence may have to name it again
}

// untranslated are blocks of the Chinese page with the English comments where they have Chinese ones behind
// the same commands.
func untranslated(english, chinese []string) (blocks []string) {
	blocks = slices.Clone(chinese)
	for i := range min(len(english), len(chinese)) {
		theirs, lines := strings.SplitAfter(english[i], "\n"), strings.SplitAfter(chinese[i], "\n")
		for k := range min(len(theirs), len(lines)) {
			want, _, has := strings.Cut(theirs[k], " # ")
			command, comment, _ := strings.Cut(lines[k], " # ")
			if has && command == want && hasHan(comment) {
				lines[k] = theirs[k]
			}
		}
		blocks[i] = strings.Join(lines, "")
	}
	return blocks
}

// compare gives where two pages differ.
func compare(want, got []section) (differ []string) {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%d sections, want %d", len(got), len(want))}
	}
	for i, w := range want {
		g := got[i]
		g.blocks = untranslated(w.blocks, g.blocks)
		for what, pair := range map[string][2]any{
			"level": {w.level, g.level}, "code blocks": {w.blocks, g.blocks}, "tables": {w.tables, g.tables},
			"links": {w.links, g.links}, "inline code": {w.codes, g.codes},
		} {
			if a, b := fmt.Sprintf("%q", pair[0]), fmt.Sprintf("%q", pair[1]); a != b {
				differ = append(differ, fmt.Sprintf("%q (%q): %s\n got  %s\n want %s", g.title, w.title, what, b, a))
			}
		}
		if strings.TrimSpace(w.text) != "" && i > 0 && !hasHan(g.text+g.title) {
			differ = append(differ, fmt.Sprintf("%q is not translated", g.title))
		}
	}
	return differ
}

func hasHan(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestTranslation: the Chinese page says what the English one says, as far as a
// program can tell.
func TestTranslation(t *testing.T) {
	for _, d := range compare(parse(read(t, english)), parse(read(t, chinese))) {
		t.Error(d)
	}
}
