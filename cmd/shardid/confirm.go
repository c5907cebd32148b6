package main

import (
	"context"
	"fmt"

	"shardid/model"
	"shardid/repository/sqlstore"

	"github.com/spf13/cobra"
)

// confirmation is what an operator says when the stores cannot know it any more.
type confirmation struct {
	app                   int64
	name, tag, deployment string
	uid, registry         bool
}

// on gives what is confirmed, for people, and what does that.
func (c confirmation) on(db *sqlstore.Store) (target string, run func(context.Context) (waited int64, err error)) {
	switch {
	case c.tag != "":
		return "tag " + c.tag, func(ctx context.Context) (int64, error) { return db.ConfirmTag(ctx, c.tag) }
	case c.uid:
		return "starts of the UID mode", db.ConfirmNodes
	case c.registry:
		return "registry of worker IDs", db.ForgetWorkerClaims
	case c.deployment != "":
		return "deployment " + c.deployment, func(ctx context.Context) (int64, error) { return db.Adopt(ctx, c.deployment) }
	}
	return fmt.Sprintf("app %d", c.app), func(ctx context.Context) (int64, error) { return db.ConfirmApp(ctx, uint8(c.app), c.name) }
}

// confirm changes nothing where nothing waits for it.
func (c *cli) confirm() *cobra.Command {
	var what confirmation
	cmd := &cobra.Command{
		Use:   "confirm (--app ID --name NAME | --tag TAG | --uid | --registry | --deployment ID)",
		Short: "Say that a database which went back in time is right now",
		Long: `After a database was restored, or failed over to a copy that lags, shardid leaves
out whatever the copy may lack. Where that would burn much of a small ID space it
waits for an operator instead, and its error names the command. Before you run it,
raise max_id above the highest ID in use: apps set --min-index, tags set --max-id.`,
		Example: `  shardid apps set --app 7 --min-index 120000   # above the highest index in use
  shardid confirm --app 7 --name orders
  shardid confirm --tag orders
  shardid confirm --uid                          # WORKER_NODE has every instance that runs
  shardid confirm --registry                     # no instance of the old registry of worker IDs runs
  shardid confirm --deployment 3f0c2b9e          # this database takes that one's place`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Int64Var(&what.app, "app", -1, "app `ID`, 0…255")
	f.StringVar(&what.name, "name", "", "the app's `name`")
	f.StringVar(&what.tag, "tag", "", "segment `tag`")
	f.BoolVar(&what.uid, "uid", false, "the starts of the UID mode")
	f.BoolVar(&what.registry, "registry", false, "another registry of worker IDs, or snowflake.name")
	f.StringVar(&what.deployment, "deployment", "", "`ID` of the deployment whose database is gone")
	cmd.MarkFlagsRequiredTogether("app", "name")
	cmd.MarkFlagsOneRequired("app", "tag", "uid", "registry", "deployment")
	cmd.MarkFlagsMutuallyExclusive("app", "tag", "uid", "registry", "deployment")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if _, err := model.NewListKey(what.app, 0); err != nil && cmd.Flags().Changed("app") {
			return err
		}
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			service, err := adminOn(cfg, db)
			if err != nil {
				return err
			}
			target, run := what.on(db)
			result := "confirmed; running replicas go on within seconds"
			waited, err := service.Confirm(ctx, operator(), target, run)
			if err != nil {
				return err
			}
			if waited == 0 {
				result = "nothing waited for a confirmation, nothing was changed"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", target, result)
			return err
		})
	})
}
