package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"shardid/scripts/check"
)

const (
	operationsPath = "docs/operations.md"
	chinesePath    = "docs/zh/operations.md"
	alarmsPath     = "service/monitor/alarms.go"
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

// TestRunbook: each alarm has its section, and each section below "Alarms" its alarm. The table above the
// sections has it in the row of its severity, and the Chinese page has a row for it, in the table of its severity.
func TestRunbook(t *testing.T) {
	c := checks{t}
	raised := regexp.MustCompile(`\b(Critical|Warning|Info), "(Shardid\w+)"`)
	alarms := map[string]string{"ShardidDown": "critical"} // which Prometheus alone can see
	for _, a := range raised.FindAllStringSubmatch(read(alarmsPath), -1) {
		alarms[a[2]] = strings.ToLower(a[1])
	}
	c.unless(len(alarms) > 10, "%d alarms", len(alarms))
	_, alarmPart, _ := strings.Cut(read(operationsPath), "\n## Alarms\n")
	table, sections, _ := strings.Cut(alarmPart, "\n### ")
	told := map[string]bool{}
	for _, s := range strings.Split(sections, "\n### ") {
		name, entry, _ := strings.Cut(s, "\n")
		told[name] = true
		c.unless(alarms[name] != "", "section %s is about no alarm", name)
		c.unless(alarmEntry.MatchString(entry), "section %s is not what it means, what to do, and a command", name)
	}
	for name, severity := range alarms {
		c.unless(told[name], "alarm %s has no section", name)
		_, row, _ := strings.Cut(table, "\n| "+severity+" |")
		row, _, _ = strings.Cut(row, "\n")
		c.unless(strings.Contains(row, "["+name+"](#"+anchor(name)+")"),
			"alarm %s is not in the row %s of %s", name, severity, operationsPath)
		_, chinese, _ := strings.Cut(read(chinesePath), "\n### "+severity+"：")
		chinese, _, _ = strings.Cut(chinese, "\n### ")
		c.unless(strings.Contains(chinese, "\n| ["+name+"](../operations.md#"+anchor(name)+") |"),
			"alarm %s has no row below %s in %s", name, severity, chinesePath)
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

// TestAlertRules: Prometheus takes the rules, and they fire when they should.
func TestAlertRules(t *testing.T) {
	check.Deep(t)
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
