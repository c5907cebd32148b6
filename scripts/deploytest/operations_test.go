package deploytest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

const (
	operationsPath = "docs/operations.md"
	runningPath    = "docs/running.md"
	chinesePath    = "docs/zh/operations.md"
	alertsPath     = "deploy/prometheus/alerts.yml"
	readmePath     = "deploy/README.md"
)

// anchors are the headings of a page as links name them.
func anchors(text string) map[string]bool {
	found, fenced := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		title := strings.TrimLeft(line, "#")
		if !fenced && strings.HasPrefix(line, "#") && strings.HasPrefix(title, " ") {
			found[anchor(strings.TrimSpace(title))] = true
		}
	}
	return found
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

// alarmEntry is a section of the runbook below its heading: all have one shape.
var alarmEntry = regexp.MustCompile(`(?s)^\n- \*\*Means\*\*: .+\n- \*\*Do\*\*: .+\n- \*\*Command\*\*: .+$`)

// TestRunbook: each alert has its section, and each section below "Alarms" its alert. The
// Chinese page has a row for each, in the table of its severity.
func TestRunbook(t *testing.T) {
	c := checks{t}
	page, rules := read(operationsPath), read(alertsPath)
	names := regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	runbooks := regexp.MustCompile(`(?m)^\s*runbook: (\S+)$`).FindAllStringSubmatch(rules, -1)
	c.unless(len(names) > 10 && len(names) == len(runbooks), "%d alerts, %d runbooks", len(names), len(runbooks))
	there, alerts := anchors(page), map[string]bool{}
	for _, n := range names {
		alerts[n[1]] = true
		c.unless(strings.Contains(page, "\n### "+n[1]+"\n"), "alert %s has no section", n[1])
	}
	for _, r := range runbooks {
		file, at, _ := strings.Cut(r[1], "#")
		c.unless(file == operationsPath && there[at], "the runbook %s is not there", r[1])
	}
	_, sections, _ := strings.Cut(page, "\n## Alarms\n")
	for _, s := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(sections, -1) {
		c.unless(alerts[s[1]], "section %s is about no alert", s[1])
	}
	for _, s := range strings.Split(sections, "\n### ")[1:] {
		name, entry, _ := strings.Cut(s, "\n")
		c.unless(alarmEntry.MatchString(entry), "section %s is not what it means, what to do, and a command", name)
	}
	severities := regexp.MustCompile(`(?s)- alert: (\w+)\n.*?severity: (\w+)`).FindAllStringSubmatch(rules, -1)
	c.unless(len(severities) == len(names), "%d alerts, %d severities", len(names), len(severities))
	for _, s := range severities {
		_, table, _ := strings.Cut(read(chinesePath), "\n### "+s[2]+"：")
		table, _, _ = strings.Cut(table, "\n### ")
		row := "\n| [" + s[1] + "](../operations.md#" + anchor(s[1]) + ") |"
		c.unless(strings.Contains(table, row), "alert %s has no row below %s in %s", s[1], s[2], chinesePath)
	}
}

// TestLinks: what the pages link to in the repository is there.
func TestLinks(t *testing.T) {
	c := checks{t}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/zh/*.md", readmePath, chartDir + "README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		c.unless(err == nil && len(found) > 0, "%s: %v", pattern, err)
		for _, path := range found {
			page, _ := filepath.Rel(root, path) // it is below
			pages = append(pages, filepath.ToSlash(page))
		}
	}
	for _, page := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(page), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			file, at, _ := strings.Cut(link[1], "#")
			target := page
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
			}
			info, err := os.Stat(filepath.Join(root, target))
			c.unless(err == nil, "%s links to %s, which is not there", page, link[1])
			if err == nil && !info.IsDir() && at != "" {
				c.unless(anchors(read(target))[at], "%s links to %s, which has no such heading", page, link[1])
			}
		}
	}
}

// TestReadme: each file of deploy/ is named, and each path that is named is there.
func TestReadme(t *testing.T) {
	c := checks{t}
	text := read(readmePath)
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "README.md" || d.Name() == ".gitignore" {
			return err
		}
		folder := filepath.Base(filepath.Dir(path))
		known := strings.Contains(text, d.Name()) || folder == "prometheus" || folder == "grafana" || strings.Contains(path, "/helm/")
		c.unless(known, "%s is not explained", path)
		return nil
	})
	c.unless(err == nil, "%v", err)
	for _, path := range regexp.MustCompile(`\bdeploy/[\w./-]*\w`).FindAllString(text, -1) {
		_, err := os.Stat(filepath.Join(root, path))
		c.unless(err == nil || path == "deploy/compose/.env", "%s is not there", path)
	}
}

// TestAlertRules: Prometheus takes the rules, and those about scraping fire when they should.
func TestAlertRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool here")
	}
	for _, args := range [][]string{{"check", "rules", filepath.Join(root, alertsPath)}, {"test", "rules", "testdata/alerts_test.yml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
