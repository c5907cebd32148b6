package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"shardid/cmd/shardid/config"
	"shardid/repository/sqlstore"

	"github.com/spf13/cobra"
)

// What most of this package takes.
type (
	Config       = config.Config
	ServerConfig = config.Server
)

// cli is the command tree of one invocation.
type cli struct {
	root *cobra.Command
	ran  bool // a command began: what fails from here on is no wrong usage
	json bool // --json
}

func newCLI() *cli {
	c := &cli{root: &cobra.Command{
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
	c.root.AddCommand(c.serve(), c.get(), c.status(), c.migrate(), c.provision(), c.apps(), c.confirm(), c.tags(), c.workers(), c.decode(),
		c.bench(), c.doctor(), c.health(), c.token(), c.config(), c.version())
	return c
}

// command completes cmd: run gets the configuration.
func (c *cli) command(cmd *cobra.Command, run func(*cobra.Command, []string, Config) error) *cobra.Command {
	return c.loading(cmd, func(cmd *cobra.Command, args []string, l *config.Loaded) error {
		return run(cmd, args, l.Config)
	})
}

// loading is command for one that looks at where the configuration comes from.
func (c *cli) loading(cmd *cobra.Command, run func(*cobra.Command, []string, *config.Loaded) error) *cobra.Command {
	config.AddFlags(cmd.Flags())
	if cmd.Name() != "serve" {
		cmd.Flags().BoolVar(&c.json, "json", false, "print JSON, with the names that HTTP uses")
	}
	cmd.Long = cmp.Or(cmd.Long, cmd.Short+".") + "\n\nEvery key of config.yaml that is no secret is also a flag, --server.addr for\n" +
		"example, and an environment variable, SHARDID_SERVER_ADDR: shardid serve --help\nlists them."
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

// print writes value as JSON in one line with --json, and else what table writes.
func (c *cli) print(cmd *cobra.Command, value any, table func(io.Writer)) error {
	if c.json {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetEscapeHTML(false) // names are for people
		return enc.Encode(value)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
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

// keysHelp lists the keys of the configuration with their defaults.
func keysHelp() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range config.Defaults().Keys {
		note := cmp.Or(k.Default, `""`)
		if k.Secret {
			note = "secret: no flag, best " + k.Env()
		}
		fmt.Fprintf(w, "  %s\t%s\n", k.Path, note)
	}
	_ = w.Flush() // a Builder takes everything
	return b.String()
}

// withData opens the database for a command that begins none.
func withData(ctx context.Context, cfg Config, f func(context.Context, *sqlstore.Store) error) error {
	if err := needData(ctx, cfg); err != nil {
		return err
	}
	return withDatabase(ctx, cfg, f)
}

// withDatabase opens the database for a command, with the schema in place on
// SQLite, and closes it afterwards. Redis vouches for it as it does for replicas.
func withDatabase(ctx context.Context, cfg Config, f func(context.Context, *sqlstore.Store) error) (err error) {
	client, err := openRedis(cfg)
	if err != nil {
		return err
	}
	if client != nil {
		defer func() { err = cmp.Or(err, client.Close()) }()
	}
	db, err := openDatabase(ctx, cfg, nil, client)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	if err := ownSchema(ctx, cfg, db); err != nil {
		return err
	}
	_ = tellDeployment(ctx, db, client) // f says what is wrong with the database
	return f(ctx, db)
}
