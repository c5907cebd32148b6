package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"

	"github.com/spf13/cobra"
)

var updateReferences = flag.Bool("update", false, "write docs/cli.md and docs/config.md")

// TestReferences keeps the references of docs as the source has them.
func TestReferences(t *testing.T) {
	for name, want := range map[string]string{"cli": cliReference(t), "config": configReference(t)} {
		t.Run(name, func(t *testing.T) {
			file := "../../docs/" + name + ".md"
			if *updateReferences {
				check.Must(t, os.WriteFile(file, []byte(want), 0o644))
			}
			got, err := os.ReadFile(file)
			check.Must(t, err)
			if string(got) != want {
				t.Errorf("%s is out of date: go test ./cmd/shardid -run TestReferences -update", file)
			}
		})
	}
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
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.Join(lines, " "))
}
