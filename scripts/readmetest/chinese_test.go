package readmetest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chinesePages are the pages of docs/zh, by file name.
func chinesePages(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../docs/zh/*")
	if err != nil || len(files) < 6 {
		t.Fatalf("docs/zh has %q, %v", files, err)
	}
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names
}

// englishPage is the English page of one of docs/zh: its path from the root of the repository, and how the
// two link to each other.
func englishPage(name string) (path, toChinese, toEnglish string) {
	if name == "deployment.md" { // its English page is beside the files that it explains
		return "deploy/README.md", "../docs/zh/" + name, "../../deploy/README.md"
	}
	return "docs/" + name, "zh/" + name, "../" + name
}

// linkEachOther gives what is wrong with the heads of a Chinese page and its English one.
func linkEachOther(name, english, chinese string) (wrong []string) {
	_, toChinese, toEnglish := englishPage(name)
	for text, want := range map[string]string{
		english: fmt.Sprintf("[中文](%s)", toChinese), chinese: fmt.Sprintf("[English](%s)", toEnglish),
	} {
		if lines := strings.SplitN(text, "\n", 4); len(lines) < 4 || lines[2] != want {
			wrong = append(wrong, fmt.Sprintf("%s: the third line is not %s", name, want))
		}
	}
	title, _, _ := strings.Cut(chinese, "\n")
	if !hasHan(title) {
		wrong = append(wrong, name+" has no Chinese title")
	}
	return wrong
}

// TestChinesePages: each page of docs/zh has its English one, and both link to each other
// below their titles.
func TestChinesePages(t *testing.T) {
	for _, name := range chinesePages(t) {
		path, _, _ := englishPage(name)
		english, chinese := read(t, "../../"+path), read(t, "../../docs/zh/"+name)
		for _, wrong := range linkEachOther(name, english, chinese) {
			t.Error(wrong)
		}
		for what, pair := range map[string][2]string{
			"the English page": {strings.Replace(english, "[中文]", "[Chinese]", 1), chinese},
			"the Chinese page": {english, strings.Replace(chinese, "(../", "(", 1)},
			"the title":        {english, "# Page\n" + chinese[strings.Index(chinese, "\n"):]},
		} {
			if len(linkEachOther(name, pair[0], pair[1])) == 0 {
				t.Errorf("%s: a change of %s is not noticed", name, what)
			}
		}
	}
}

// TestChineseIndexes: the Chinese README and the index of docs/zh name each page.
func TestChineseIndexes(t *testing.T) {
	index, readme := read(t, "../../docs/zh/README.md"), read(t, chinese)
	for _, name := range chinesePages(t) {
		if name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/zh/README.md has no link to %s", name)
		}
		if !strings.Contains(readme, "](docs/zh/"+name+")") {
			t.Errorf("README.zh-CN.md has no link to docs/zh/%s", name)
		}
	}
}

// TestChineseClients: each program of docs/zh/clients.md is one of docs/clients.md, which
// TestE2EClientsPage and TestClientFromOutside run.
func TestChineseClients(t *testing.T) {
	blocks := func(text string) []string {
		return regexp.MustCompile("(?s)```[a-z]+[^\n]*\n.*?```").FindAllString(text, -1)
	}
	english, chinese := blocks(read(t, "../../docs/clients.md")), blocks(read(t, "../../docs/zh/clients.md"))
	if len(chinese) < 8 {
		t.Errorf("docs/zh/clients.md has %d blocks", len(chinese))
	}
	for _, block := range chinese {
		if !slices.Contains(english, block) {
			t.Errorf("docs/clients.md does not have\n%s", block)
		}
	}
}

// TestChineseSources: folders of the sources that docs/zh/README.md names are there.
func TestChineseSources(t *testing.T) {
	for _, m := range regexp.MustCompile("`((?:service|repository|model|cmd)(?:/[\\w./]+)?)`").FindAllStringSubmatch(read(t, "../../docs/zh/README.md"), -1) {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Error(err)
		}
	}
}

// TestChineseFigures: the figures that docs/zh/running.md gives of the performance are among those
// of docs/performance.md, and docs/zh/performance.md has the same.
func TestChineseFigures(t *testing.T) {
	figures := func(text string) []string { return regexp.MustCompile(`\b\d+(?:\.\d+)?\b`).FindAllString(text, -1) }
	_, section, _ := strings.Cut(read(t, "../../docs/zh/running.md"), "\n## 性能与压测\n")
	section, _, _ = strings.Cut(section, "```")
	english, chinese := read(t, "../../docs/performance.md"), read(t, "../../docs/zh/performance.md")
	measured, found := figures(english), figures(section)
	if len(found) < 20 {
		t.Errorf("the section has the figures %q", found)
	}
	for _, figure := range found {
		if !slices.Contains(measured, figure) {
			t.Errorf("docs/performance.md does not have %s", figure)
		}
	}
	rows := func(text string) (rows [][]string) {
		for _, row := range regexp.MustCompile(`(?m)^\|.*$`).FindAllString(text, -1) {
			rows = append(rows, figures(row))
		}
		return rows
	}
	want, got := rows(english), rows(chinese)
	if len(want) != len(got) {
		t.Fatalf("the tables have %d rows in English and %d in Chinese", len(want), len(got))
	}
	for i := range want {
		if slices.Sort(want[i]); !slices.Equal(want[i], slices.Sorted(slices.Values(got[i]))) {
			t.Errorf("row %d has %q in English and %q in Chinese", i+1, want[i], got[i])
		}
	}
	inChinese := figures(chinese)
	for name, pair := range map[string][2][]string{"docs/performance.md": {measured, inChinese}, "docs/zh/performance.md": {inChinese, measured}} {
		for _, figure := range pair[1] {
			if !slices.Contains(pair[0], figure) {
				t.Errorf("%s does not have %s", name, figure)
			}
		}
	}
}

// TestChineseCommands: each command of the pages that are written after one English page is one of it;
// only the comments are in Chinese.
func TestChineseCommands(t *testing.T) {
	for name, pages := range map[string][]string{
		"administration.md": {"docs/administration.md"},
		"deployment.md":     {"deploy/README.md", "deploy/helm/shardid/README.md"},
	} {
		english := map[string]bool{}
		for _, page := range pages {
			for _, command := range commands(read(t, "../../"+page)) {
				english[command] = true
			}
		}
		chinese := commands(read(t, "../../docs/zh/"+name))
		if len(chinese) < 30 {
			t.Errorf("docs/zh/%s has %d commands", name, len(chinese))
		}
		for _, command := range chinese {
			if !english[command] {
				t.Errorf("%q do not have the command of docs/zh/%s\n%s", pages, name, command)
			}
		}
	}
}

// commands are the lines of a page's blocks without comments; an output, which stands behind a # of its own, is one too.
func commands(text string) (lines []string) {
	for _, block := range regexp.MustCompile("(?ms)^```\\w+\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			lines = append(lines, strings.TrimRight(regexp.MustCompile(`(\S)\s+# .*`).ReplaceAllString(line, "$1"), "\n"))
		}
	}
	return lines
}
