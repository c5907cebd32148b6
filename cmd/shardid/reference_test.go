package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// TestReferences keeps the references of docs as the source has them.
func TestReferences(t *testing.T) {
	check.Made(t, "../../docs/cli.md", cliReference(t))
	check.Made(t, "../../docs/config.md", configReference(t))
	check.MadePart(t, "../../docs/metrics.md", "alarms", alarmReference(t))
}

// everyCommand is what most commands say of the configuration.
var everyCommand = regexp.MustCompile(`(?s)\n*Every key of config\.yaml that is no secret is also a flag, --server\.addr for\nexample, and an environment variable, SHARDID_SERVER_ADDR: shardid serve --help\nlists them\.`)

// cliReference is the help of all commands.
func cliReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"This page is what `shardid COMMAND --help` says, made from the source. Commands that read the\n" +
		"configuration take every key of it that is no secret as a flag, and as an environment variable\n" +
		"([config.md](config.md)).\n")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			return
		}
		if c.HasParent() {
			help := strings.TrimSpace(everyCommand.ReplaceAllString(helpOf(t, strings.Fields(c.CommandPath())[1:]), ""))
			fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n", c.CommandPath(), help)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newCLI().root)
	return b.String()
}

// helpOf is what a command says to --help.
func helpOf(t *testing.T, words []string) string {
	t.Helper()
	var out bytes.Buffer
	c := newCLI()
	c.root.SetOut(&out)
	c.root.SetArgs(append(words, "--help"))
	check.Must(t, c.root.ExecuteContext(t.Context()))
	return out.String()
}

// configReference is config.yaml as tables.
func configReference(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("../../config.yaml")
	check.Must(t, err)
	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"This page is [config.yaml](../config.yaml), made from it: every key with its default. An environment\n" +
		"variable overrides the file, `SHARDID_SERVER_ADDR` for `server.addr`, and a flag overrides both,\n" +
		"`--server.addr`. Lists have commas there, and maps are `key=value` with commas. Secrets have no flag.\n" +
		"A duration is a number with its unit: `500ms`, `2s`, `5m`, `1h`. `shardid config check` checks a file,\n" +
		"and `shardid config print` prints what is in force.\n")
	key := regexp.MustCompile(`^( *)([a-z_]+):(?: (.*))?$`)
	var path, comment []string
	for line := range strings.Lines(string(source)) {
		line = strings.TrimRight(line, "\n")
		text, isComment := strings.CutPrefix(strings.TrimSpace(line), "#")
		switch m := key.FindStringSubmatch(line); {
		case isComment:
			comment = append(comment, strings.TrimSpace(text))
			continue
		case m == nil:
		case m[3] == "":
			path = append(path[:len(m[1])/2], m[2])
			if len(path) == 1 {
				fmt.Fprintf(&b, "\n## %s\n\n", m[2])
				if len(comment) > 0 {
					b.WriteString(strings.Join(comment, "\n") + "\n\n")
				}
				b.WriteString("| key | default | what it is |\n|---|---|---|\n")
			} else if len(comment) > 0 {
				fmt.Fprintf(&b, "| `%s.*` | | %s |\n", strings.Join(path, "."), cell(comment))
			}
		case m[1] == "" && len(path) > 0 && !strings.Contains(b.String(), "\n## Others\n"):
			b.WriteString("\n## Others\n\n| key | default | what it is |\n|---|---|---|\n")
			fallthrough
		default:
			path = path[:len(m[1])/2]
			value, _, _ := strings.Cut(m[3], " #")
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", strings.Join(append(path, m[2]), "."), value, cell(comment))
		}
		comment = nil
	}
	return b.String()
}

// cell is a comment as a cell of a table; a key without one shares that of the key before.
func cell(lines []string) string {
	if len(lines) == 0 {
		return "see above"
	}
	return strings.ReplaceAll(check.Cell(strings.Join(lines, " ")), "<", "&lt;")
}

// label is a label or the value of an alert, in the texts about it.
var label = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}`)

// alarmReference is deploy/prometheus/alerts.yml as a table, the most severe first.
func alarmReference(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	check.Must(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, For  string
				Labels      struct{ Severity string }
				Annotations struct{ Summary, Description, Runbook string }
			}
		}
	}
	check.Must(t, yaml.Unmarshal(source, &file))
	severities, rows := []string{"critical", "warning", "info"}, make([]string, 3)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			means := strings.TrimPrefix(r.Annotations.Summary, "{{ $labels.instance }}: ") + ". " + r.Annotations.Description
			rows[slices.Index(severities, r.Labels.Severity)] += fmt.Sprintf("| [%s](%s) | %s | %s | %s |\n", r.Alert,
				strings.TrimPrefix(r.Annotations.Runbook, "docs/"), r.Labels.Severity, cmp.Or(r.For, "at once"), check.Cell(label.ReplaceAllString(means, "*$1*")))
		}
	}
	return "| alarm, and what to do | severity | after | means |\n|---|---|---|---|\n" + strings.Join(rows, "")
}
