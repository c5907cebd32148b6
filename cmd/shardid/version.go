package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release this source tree belongs to; see CHANGELOG.md. make release sets
// it to that of the git tag.
var version = "0.5.0"

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
