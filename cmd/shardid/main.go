// Command shardid is a distributed ID service: one binary that issues 64-bit IDs
// over HTTP and never one twice.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
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
	log  bytes.Buffer   // audit lines of the command that runs, which follow its answer
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
// each problem, and audit lines follow.
func run(ctx context.Context, args []string) int {
	c := newCLI()
	c.root.SetArgs(args)
	cmd, err := c.root.ExecuteContextC(ctx)
	status := exitFailed
	switch own, is := errors.AsType[*exitError](err); {
	case is:
		err, status = own.err, own.status
	case err != nil && !c.ran:
		err, status = misuse(cmd, err), exitUsage
	case err == nil:
		status = exitDone
	case errors.Is(err, model.ErrInvalidArgument):
		status = exitUsage
	}
	for _, problem := range problems(err) {
		fmt.Fprintf(os.Stderr, "shardid: %s\n", model.Message(problem))
	}
	c.tellLog()
	return status
}

// problems are the errors that errors.Join has joined, or the one that there is.
func problems(err error) (all []error) {
	if err == nil {
		return nil
	}
	several, is := err.(interface{ Unwrap() []error })
	if !is || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		all = append(all, problems(one)...)
	}
	return all
}

// misuse is an error of cobra or pflag about how a command was called, with what to do.
func misuse(cmd *cobra.Command, err error) error {
	text, near, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	meant := strings.Fields(near)
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		names := map[string]string{} // what to write, by what may have been written
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = "--" + f.Name })
		for _, k := range config.Defaults().Keys { // in 0.3 each was a flag
			names[k.Path] = "--set " + k.Path + "=VALUE"
		}
		for _, name := range config.Nearest(unknown.GetSpecifiedName(), slices.Sorted(maps.Keys(names))) {
			meant = append(meant, names[name])
		}
	}
	do := "see " + cmd.CommandPath() + " --help"
	switch {
	case len(meant) > 0:
		do = "did you mean " + strings.Join(meant, " or ") + "; " + do
	case strings.Contains(text, " arg(s)"): // cobra has no kind for these
		do = "write " + strings.TrimSuffix(cmd.UseLine(), " [flags]") + "; " + do
	}
	return fmt.Errorf("%w: %s", model.Remedy(do), text)
}

// tellLog writes what the command has logged, after what it answered. On a terminal the answer says all of it.
func (c *cli) tellLog() {
	if !isTerminal(os.Stderr) {
		_, _ = os.Stderr.Write(c.log.Bytes()) // there is nowhere to tell that it failed
	}
	c.log.Reset()
}

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
