package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
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
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  shardid version\n  shardid version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.ran = true
			said := map[string]string{
				"version": versionString(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}
			return c.print(cmd, said, func(w io.Writer) { fmt.Fprintln(w, versionLine()) })
		},
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "print JSON")
	return cmd
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
