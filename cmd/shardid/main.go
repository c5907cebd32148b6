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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses, public surface.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

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
  shardid get --app 1 --gate-pass alice
  shardid decode 16385`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}}
	c.root.SetVersionTemplate("{{.Version}}\n")
	config.AddFlags(c.keys)
	c.root.AddCommand(c.serve(), c.get(), c.status(), c.migrate(), c.provision("provision"), c.apps(), c.confirm(), c.tags(), c.names(), c.sequences(), c.region(),
		c.workers(), c.lease(), c.decode(), c.bench(), c.doctor(), c.health(), c.token(), c.config(), c.version(), c.man())
	return c
}

// run executes one command and returns the exit status. Errors go to stderr, a line for
// each problem.
func run(ctx context.Context, args []string) int {
	c := newCLI()
	c.root.SetArgs(numbersLast(args))
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
		text := strings.NewReplacer("\n\nDid you mean this?\n\t", ": did you mean ", "\n\t", " or ", "\n", "").Replace(err.Error())
		fmt.Fprintf(os.Stderr, "shardid: %s\n", cmp.Or(c.spaced(args), keyAsFlag(err), text+": see shardid --help"))
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

// numbersLast puts the negative numbers that decode gets behind "--", because they are no
// flags.
func numbersLast(args []string) []string {
	var numbers []string
	if len(args) == 0 || args[0] != "decode" || slices.Contains(args, "--") {
		return args
	}
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		negative := len(arg) > 1 && arg[0] == '-' && '0' <= arg[1] && arg[1] <= '9'
		if negative {
			numbers = append(numbers, arg)
		}
		return negative
	})
	if len(numbers) == 0 {
		return args
	}
	return append(append(args, "--"), numbers...)
}

// spaced says how a boolean is written when one of args has its value behind a space, "" when
// none has.
func (c *cli) spaced(args []string) string {
	cmd, _, err := c.root.Find(args)
	if err != nil {
		return ""
	}
	for i := range len(args) - 1 {
		name, long := strings.CutPrefix(args[i], "--")
		f := cmd.Flags().Lookup(name)
		if _, err := strconv.ParseBool(args[i+1]); long && f != nil && f.NoOptDefVal != "" && err == nil {
			return fmt.Sprintf("%[1]s %[2]s: a boolean takes its value after =: write %[1]s=%[2]s", args[i], args[i+1])
		}
	}
	return ""
}

// keyAsFlag says how a key of the configuration is set when err is about a flag of its name, which
// keys had before 0.4; "" for any other error.
func keyAsFlag(err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if !slices.ContainsFunc(config.Defaults().Keys, func(k *config.Key) bool { return k.Path == name }) {
		return ""
	}
	return fmt.Sprintf("--%[1]s is gone since 0.4: write --set %[1]s=VALUE", name)
}

// oneLine is an error, of which joined ones are a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// command completes cmd: run gets the configuration.
func (c *cli) command(cmd *cobra.Command, run func(*cobra.Command, []string, Config) error) *cobra.Command {
	return c.loading(cmd, func(cmd *cobra.Command, args []string, l *config.Loaded) error {
		return run(cmd, args, l.Config)
	})
}

// loading is command for one that looks at where the configuration comes from.
func (c *cli) loading(cmd *cobra.Command, run func(*cobra.Command, []string, *config.Loaded) error) *cobra.Command {
	cmd.Flags().AddFlagSet(c.keys)
	if cmd.Name() != "serve" && cmd.Name() != "lease" {
		cmd.Flags().BoolVar(&c.json, "json", false, "print JSON, with the names that HTTP uses")
	}
	cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + `

Every key of config.yaml is also an environment variable, SHARDID_SERVER_ADDR for
example, and every key that is no secret can be set by --set server.addr=:8080.`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.ran = true
		l, err := config.Load(cmd.Flags(), os.Environ())
		if err != nil {
			return err
		}
		return run(cmd, args, l)
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

// choose registers a flag that takes one of a few values, which shells complete.
func choose(cmd *cobra.Command, target *string, name, value, usage string, values ...string) {
	cmd.Flags().StringVar(target, name, value, usage)
	offer(cmd, name, values...)
}

// offer has shells complete the values of a flag.
func offer(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is registered before
	}
}

// required marks flags that were just registered.
func required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is registered a few lines above
		}
	}
}

// answer is what a flag may be, with a description.
type answer struct{ value, description string }

// answers asks a store or a server.
type answers func(context.Context, Config) ([]answer, error)

// completeTimeout bounds what a completion asks a store or a server: somebody waits for it.
const completeTimeout = 2 * time.Second

// complete has shells complete the values of a flag with what ask gives.
func complete(cmd *cobra.Command, flag string, ask answers) {
	given := func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		l, err := config.Load(cmd.Flags(), os.Environ())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := ask(ctx, l.Config)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		var all []cobra.Completion
		for _, a := range found {
			switch {
			case !completable.MatchString(a.value):
			case completable.MatchString(a.description):
				all = append(all, cobra.CompletionWithDesc(a.value, a.description))
			default:
				all = append(all, a.value)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, given); err != nil {
		panic(err) // the flag is registered before
	}
}

// completable is what shells may be given. Those of cobra's scripts expand what they get, so
// that $(…) in a name would be run.
var completable = regexp.MustCompile(`^[\pL\pN][\pL\pN ._:/@+,-]*$`)

// appsOfDatabase are the apps that are provisioned.
func appsOfDatabase(ctx context.Context, cfg Config) (all []answer, err error) {
	err = reading(ctx, cfg, func(db *sqlstore.Store) error {
		apps, err := db.Apps(ctx)
		for _, a := range apps {
			all = append(all, answer{strconv.Itoa(int(a.ID)), a.Name})
		}
		return err
	})
	return all, err
}

// tagsOfDatabase are the tags of leaf_alloc.
func tagsOfDatabase(ctx context.Context, cfg Config) (all []answer, err error) {
	err = reading(ctx, cfg, func(db *sqlstore.Store) error {
		tags, err := db.Tags(ctx)
		for _, t := range tags {
			all = append(all, answer{t.Name, t.Description})
		}
		return err
	})
	return all, err
}

// reading opens the database, if there is one, for a question.
func reading(ctx context.Context, cfg Config, ask func(*sqlstore.Store) error) (err error) {
	if err := needData(ctx, cfg); err != nil {
		return err
	}
	db, err := openDatabase(ctx, cfg, nil, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	return ask(db)
}

// apps are those that the server has.
func (a *asking) apps(ctx context.Context, cfg Config) (all []answer, err error) {
	status, err := a.status(ctx, cfg)
	if status.Queue != nil {
		for _, app := range status.Queue.Apps {
			all = append(all, answer{strconv.Itoa(int(app.App)), app.Name})
		}
	}
	return all, err
}

// tags are those that the server has served.
func (a *asking) tags(ctx context.Context, cfg Config) (all []answer, err error) {
	status, err := a.status(ctx, cfg)
	if status.Segment != nil {
		for _, tag := range status.Segment.Tags {
			all = append(all, answer{value: tag.Name})
		}
	}
	return all, err
}

func (a *asking) status(ctx context.Context, cfg Config) (status httpapi.Status, err error) {
	body, err := a.fetch(ctx, cfg, "/api/status")
	if err == nil {
		err = json.Unmarshal(body, &status)
	}
	return status, err
}
