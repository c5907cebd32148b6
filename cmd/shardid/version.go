package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// version is the release this source tree belongs to; see CHANGELOG.md. make release sets
// it to that of the git tag.
var version = "0.3.0"

// shownRevision is how many digits of the commit are shown.
const shownRevision = 12

// revision is the commit, set by the linker where the build cannot see the
// repository, as in an image: -ldflags "-X main.revision=$(git rev-parse HEAD)".
var revision string

func (c *cli) version() *cobra.Command {
	var sbom bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  shardid version
  shardid version --sbom > shardid.sbom.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.ran = true
			if sbom {
				return printSBOM(cmd.OutOrStdout())
			}
			return c.print(cmd, map[string]string{"version": versionString(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH},
				func(w io.Writer) { fmt.Fprintln(w, versionLine()) })
		},
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&sbom, "sbom", false, "print the modules in this program, as CycloneDX 1.5")
	return cmd
}

// component is a module in CycloneDX.
type component struct {
	Type    string          `json:"type"`
	Name    string          `json:"name"`
	Version string          `json:"version"`
	PURL    string          `json:"purl"`
	Hashes  []componentHash `json:"hashes,omitempty"`
}

type componentHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// printSBOM lists what the linker recorded.
func printSBOM(w io.Writer) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("this program was built without a list of its modules")
	}
	standard := strings.TrimPrefix(info.GoVersion, "go")
	modules := []component{{Type: "library", Name: "std", Version: standard, PURL: "pkg:golang/std@" + standard}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		one := component{Type: "library", Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			one.Hashes = []componentHash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		modules = append(modules, one)
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   map[string]any{"component": component{Type: "application", Name: "shardid", Version: version, PURL: "pkg:golang/" + info.Main.Path + "@" + version}},
		"components": modules,
	})
}

// man writes the manual pages of all commands, for packages.
func (c *cli) man() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages into a folder", Hidden: true,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ran = true
			c.root.DisableAutoGenTag = true
			c.root.InitDefaultCompletionCmd()
			header := &doc.GenManHeader{Section: "1", Source: "shardid " + version, Manual: "shardid"}
			if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
				at := time.Unix(seconds, 0).UTC()
				header.Date = &at
			}
			return doc.GenManTree(c.root, header, args[0])
		},
	}
}

// versionLine is the version for people.
func versionLine() string {
	return fmt.Sprintf("shardid %s %s %s/%s", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionString is the version with the commit, where the build recorded it.
func versionString() string {
	if len(revision) >= shownRevision {
		return version + "+" + revision[:shownRevision]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= shownRevision {
			return version + "+" + s.Value[:shownRevision]
		}
	}
	return version
}
