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

// linkEachOther gives what is wrong with the heads of a Chinese page and its English one.
func linkEachOther(name, english, chinese string) (wrong []string) {
	for text, want := range map[string]string{
		english: fmt.Sprintf("[中文](zh/%s)", name), chinese: fmt.Sprintf("[English](../%s)", name),
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
		english, chinese := read(t, "../../docs/"+name), read(t, "../../docs/zh/"+name)
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

// TestChineseFigures: the figures that docs/zh/running.md gives of the performance are those
// of docs/performance.md.
func TestChineseFigures(t *testing.T) {
	figures := func(text string) []string { return regexp.MustCompile(`\b\d+(?:\.\d+)?\b`).FindAllString(text, -1) }
	_, section, _ := strings.Cut(read(t, "../../docs/zh/running.md"), "\n## 性能与压测\n")
	section, _, _ = strings.Cut(section, "```")
	measured, found := figures(read(t, "../../docs/performance.md")), figures(section)
	if len(found) < 20 {
		t.Errorf("the section has the figures %q", found)
	}
	for _, figure := range found {
		if !slices.Contains(measured, figure) {
			t.Errorf("docs/performance.md does not have %s", figure)
		}
	}
}
