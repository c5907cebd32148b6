// Command shardid is a distributed ID service: one binary that issues 64-bit IDs
// over HTTP and never one twice.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"shardid/cmd/shardid/config"
	"shardid/model"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses, public surface.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitError is an exit status of its own; err is nil where nothing is to be said.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.status, e.err) }

// What most of this package takes.
type (
	Config       = config.Config
	ServerConfig = config.Server
)

// cli is the command tree of one invocation.
type cli struct {
	root *cobra.Command
	ran  bool           // a command began: what fails from here on is no wrong usage
	json bool           // --json
	file string         // of the configuration; "" for none
	keys *pflag.FlagSet // --config and --set, which the commands share: only one of them runs
}

func main() { os.Exit(run(context.Background(), os.Args[1:])) }

// newCLI builds the command tree.
func newCLI() *cli {
	c := &cli{keys: pflag.NewFlagSet("", pflag.ContinueOnError), root: &cobra.Command{
		Use:     "shardid",
		Version: versionLine(),
		Short:   "A distributed ID service that never issues an ID twice",
		Example: `  shardid serve --demo
  shardid status
  shardid decode 16385`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}}
	c.root.SetVersionTemplate("{{.Version}}\n")
	config.AddFlags(c.keys)
	c.root.AddCommand(c.serve(), c.status(), c.migrate(),
		administer(c, appNoun()), administer(c, tagNoun()), administer(c, nameNoun()), administer(c, spaceNoun()),
		c.confirm(), c.region(),
		c.workers(), c.lease(), c.decode(), c.bench(), c.doctor(), c.health(), c.token(), c.config(), c.version())
	return c
}

// run executes one command and returns the exit status. Errors go to stderr, a line for
// each problem.
func run(ctx context.Context, args []string) int {
	c := newCLI()
	c.root.SetArgs(args)
	err := c.root.ExecuteContext(ctx)
	var own *exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		if own.err != nil {
			fmt.Fprintf(os.Stderr, "shardid: %s\n", oneLine(own.err))
		}
		return own.status
	case !c.ran:
		text := strings.NewReplacer("\n\nDid you mean this?\n\t", ": did you mean ", "\n\t", " or ", "\n",
			"").Replace(err.Error())
		fmt.Fprintf(os.Stderr, "shardid: %s: see shardid --help\n", text)
		return exitUsage
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(os.Stderr, "shardid: %s\n", line)
	}
	if errors.Is(err, model.ErrInvalidArgument) {
		return exitUsage
	}
	return exitFailed
}

// oneLine is an error, of which joined ones are a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// command completes cmd: run gets the configuration.
func (c *cli) command(cmd *cobra.Command, run func(*cobra.Command, []string, Config) error) *cobra.Command {
	cmd.Flags().AddFlagSet(c.keys)
	if cmd.Name() != "serve" && cmd.Name() != "lease" {
		cmd.Flags().BoolVar(&c.json, "json", false, "print JSON, with the field names of the HTTP API")
	}
	cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + `

Environment variables such as SHARDID_SERVER_ADDR, and --set server.addr=:8080, set the
keys of config.yaml; --set takes no secrets.`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.ran = true
		l, err := config.Load(cmd.Flags(), os.Environ())
		if err != nil {
			return err
		}
		c.file = l.File
		return run(cmd, args, l.Config)
	}
	return cmd
}

// print writes value as JSON in one line with --json, and else what text writes, in
// columns where it has tabs.
func (c *cli) print(cmd *cobra.Command, value any, text func(io.Writer)) error {
	if c.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetEscapeHTML(false) // names are for people
		return enc.Encode(value)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	text(w)
	return w.Flush()
}

// table is a text for print: a header and a line of cells for each item, or none when
// there are no items.
func table[T any](items []T, none, header string, cells func(T) []any) func(io.Writer) {
	return func(w io.Writer) {
		if len(items) == 0 {
			fmt.Fprintln(w, none)
			return
		}
		fmt.Fprintln(w, header)
		for _, item := range items {
			line := cells(item)
			fmt.Fprintf(w, strings.Repeat("%v\t", len(line)-1)+"%v\n", line...)
		}
	}
}
