package main

import (
	"cmp"
	"context"
	"os"

	"shardid/repository/sqlstore"

	"github.com/spf13/cobra"
)

// cli is the command tree of one invocation.
type cli struct {
	root *cobra.Command
	ran  bool // a command began: what fails from here on is no wrong usage
}

func newCLI() *cli {
	c := &cli{root: &cobra.Command{
		Use:   "shardid",
		Short: "A distributed ID service that never issues an ID twice",
		Example: `  shardid serve --demo
  shardid decode 16385`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}}
	c.root.CompletionOptions.HiddenDefaultCmd = true
	c.root.AddCommand(c.serve(), c.migrate(), c.provision(), c.apps(), c.confirm(), c.tags(), c.workers(), c.decode(), c.bench(), c.doctor(), c.health(), c.token(), c.version())
	return c
}

// command completes cmd: run gets the configuration when configured is set.
func (c *cli) command(cmd *cobra.Command, run func(*cobra.Command, []string, Config) error) *cobra.Command {
	addConfigFlags(cmd.Flags())
	cmd.Long = cmd.Short + ".\n\nEvery key of config.yaml that is no secret is also a flag, --server.addr for\n" +
		"example, and an environment variable, SHARDID_SERVER_ADDR."
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.ran = true
		cfg, err := configFromFlags(cmd.Flags(), os.Environ())
		if err != nil {
			return err
		}
		return run(cmd, args, cfg)
	}
	return cmd
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
