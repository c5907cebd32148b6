//go:build unix

// Package deploytest holds what is no Go: the files of deploy/ by the programs that read them, such as Helm and
// systemd-analyze, and the pages by their links, by their translation, and by a program elsewhere that uses the client
// as docs/clients.md says. What those programs cannot see, names that
// one file gives and another uses, is a table in TestFilesAgree. A program that is missing is skipped; make test-deploy
// builds those that can be built.
package deploytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// root is the folder of the sources.
const root = "../.."

// read gives a file of the sources.
func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	check.Must(t, err)
	return string(raw)
}

// run runs a program and gives what it says; an error has that too.
func run(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// found is a program of this machine, or the test is skipped.
func found(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s here", program)
	}
	return path
}

// built is a program that make test-deploy builds, or the test is skipped.
func built(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, ".tools", name))
	check.Must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("make test-deploy has not built %s", name)
	}
	return path
}

// TestRunbook: each alarm is in the table of the page, in the row of each of its severities, with a link to its
// section, which TestLinks looks for, and in the Chinese table of the first of them. No section is about anything else.
func TestRunbook(t *testing.T) {
	_, page, _ := strings.Cut(read(t, "docs/operations.md"), "\n## Alarms\n")
	raised := regexp.MustCompile(`"(Shardid\w+)", (Critical|Warning|Info),`)
	alarms := map[string][]string{"ShardidDown": {"critical"}} // which Prometheus alone can see
	for _, a := range raised.FindAllStringSubmatch(read(t, "service/monitor/alarms.go"), -1) {
		alarms[a[1]] = append(alarms[a[1]], strings.ToLower(a[2]))
	}
	check.Equal(t, len(alarms), 15, "alarms")
	check.Equal(t, strings.Count(page, "\n### "), 15, "sections")
	below := func(text, heading, end string) string {
		_, text, _ = strings.Cut(text, heading)
		text, _, _ = strings.Cut(text, end)
		return text
	}
	for name, severities := range alarms {
		link := "#" + anchor(name) + ")"
		for _, severity := range severities {
			check.Has(t, below(page, "\n| "+severity+" |", "\n"), "["+name+"]("+link, "row", severity)
		}
		first := below(read(t, "docs/zh/operations.md"), "\n### "+severities[0]+"：", "\n### ")
		check.Has(t, first, "\n| ["+name+"](../operations.md"+link, "row of", severities[0])
	}
}

// TestLinks: what the pages link to in the repository is there.
func TestLinks(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/zh/*.md", "deploy/helm/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			page, err := os.ReadFile(path)
			check.Must(t, err)
			for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(string(page), -1) {
				if !strings.Contains(link[1], "://") {
					checkLink(t, path, link[1])
				}
			}
		}
	}
}

func checkLink(t *testing.T, page, link string) {
	t.Helper()
	file, heading, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s links to %s, which is not there", page, link)
		return
	}
	if heading != "" && !slices.Contains(anchors(t, target), heading) {
		t.Errorf("%s links to %s, which has no such heading", page, link)
	}
}

var fences = regexp.MustCompile("(?ms)^```.*?^```")

// anchors are the headings of a page as links name them.
func anchors(t *testing.T, path string) (all []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	text := fences.ReplaceAllString(string(raw), "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		all = append(all, anchor(strings.TrimSpace(m[1])))
	}
	return all
}

// anchor is lower case, with dashes for spaces and without punctuation.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// TestChineseReadme: the Chinese README has the commands of the English one, but for comments, and in each section the
// same links, code and tables. Whether the translation is a good one, no test can say.
func TestChineseReadme(t *testing.T) {
	english, chinese := read(t, "README.md"), read(t, "README.zh-CN.md")
	want, got := outline(english), outline(chinese)
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) {
			t.Fatalf("%d blocks of code and sections, want %d", len(got), len(want))
		}
		check.Equal(t, got[i], want[i], "part", i+1)
	}
	for i, section := range regexp.MustCompile(`(?m)^#`).Split(fences.ReplaceAllString(chinese, ""), -1) {
		if i > 0 && !regexp.MustCompile(`\p{Han}`).MatchString(section) {
			t.Errorf("not translated: %s", section)
		}
	}
}

// outline is what a translation keeps: the blocks of code, then of each section what is marked in it.
func outline(page string) (parts []string) {
	for _, block := range fences.FindAllString(page, -1) {
		parts = append(parts, regexp.MustCompile(`(?m)\s# .*$`).ReplaceAllString(block, ""))
	}
	for _, section := range regexp.MustCompile(`(?m)^#`).Split(fences.ReplaceAllString(page, ""), -1) {
		marks := []string{strconv.Itoa(strings.Count(section, "\n|")) + " rows"}
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(section, -1) {
			if !strings.HasPrefix(link[1], "README") && !strings.HasPrefix(link[1], "docs/zh/") {
				// Each page shows the picture in its language.
				marks = append(marks, strings.Replace(link[1], "/how-zh.svg", "/how.svg", 1))
			}
		}
		line := strings.ReplaceAll(section, "\n", " ")
		marks = append(marks, regexp.MustCompile("`[^`]+`").FindAllString(line, -1)...)
		slices.Sort(marks)
		parts = append(parts, strings.Join(slices.Compact(marks), "\n"))
	}
	return parts
}

// outside is a program's module elsewhere, which no network helps.
type outside struct {
	t                 *testing.T
	dir, repository   string
	program, commands string // of docs/clients.md: the program, and the commands that come after it
}

func newOutside(t *testing.T) outside {
	t.Helper()
	repository, err := filepath.Abs(root)
	check.Must(t, err)
	program := regexp.MustCompile("(?s)```go client\n(.*?)```.*?```sh\n(.*?)```")
	found := program.FindStringSubmatch(read(t, "docs/clients.md"))
	if found == nil {
		t.Fatal("docs/clients.md has no program with the Go client, or no commands after it")
	}
	o := outside{t, t.TempDir(), repository, found[1], found[2]}
	o.run("go mod init example.com/app")
	return o
}

// run runs commands, one a line, and gives what they printed.
func (o outside) run(commands string) (said string) {
	o.t.Helper()
	for command := range strings.Lines(commands) {
		words := strings.Fields(strings.ReplaceAll(command, "/path/to/shardid", o.repository))
		cmd := exec.CommandContext(o.t.Context(), words[0], words[1:]...)
		cmd.Dir, cmd.Env = o.dir, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=", "GOFLAGS=-mod=mod")
		if _, err := os.Stat(filepath.Join(o.dir, "go.work")); err == nil {
			cmd.Env = append(cmd.Env, "GOFLAGS=") // which excludes -mod=mod
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			o.t.Fatalf("%s: %v\n%s", command, err, out)
		}
		said += string(out)
	}
	return strings.TrimSpace(said)
}

// TestClientFromOutside: a program of another module uses the client as docs/clients.md says, by replace and in a
// workspace.
func TestClientFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"7001","count":%s,"stride":"1"}]}`, r.FormValue("count"))
	}))
	defer service.Close()
	for _, way := range []string{"replace", "workspace"} {
		t.Run(way, func(t *testing.T) {
			o := newOutside(t)
			program := strings.ReplaceAll(o.program, "http://127.0.0.1:8080", service.URL)
			check.Must(t, os.WriteFile(filepath.Join(o.dir, "main.go"), []byte(program), 0o600))
			if way == "replace" {
				o.run(o.commands)
			} else {
				o.run("go work init . /path/to/shardid/client")
			}
			check.Equal(t, o.run("go run ."), "7001 1ov [7001 7002 7003]")
		})
	}
}

// TestClientLiftsNothing: the client requires no module, and gormid nothing but gorm with what gorm needs; so a
// program keeps its gin and its go-redis.
func TestClientLiftsNothing(t *testing.T) {
	for file, want := range map[string]string{
		"client/go.mod":        "[]",
		"client/gormid/go.mod": "[gorm.io/gorm shardid/client github.com/jinzhu/inflection github.com/jinzhu/now]",
	} {
		var requires []string
		required := regexp.MustCompile(`(?m)^(?:require )?\s*(\S+) v\d`)
		for _, m := range required.FindAllStringSubmatch(read(t, file), -1) {
			requires = append(requires, m[1])
		}
		check.Equal(t, fmt.Sprint(requires), want, file)
	}
}
