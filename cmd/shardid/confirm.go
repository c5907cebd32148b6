package main

import (
	"context"
	"fmt"

	"shardid/model"
	"shardid/repository/sqlstore"

	"github.com/spf13/cobra"
)

// confirm is what an operator says when the stores cannot know it any more. Nothing is
// changed where nothing waits for it.
func (c *cli) confirm() *cobra.Command {
	var id int64
	var name, tag, deployment string
	var uid, registry bool
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
	f.Int64Var(&id, "app", -1, "app `ID`, 0…255")
	f.StringVar(&name, "name", "", "the app's `name`")
	f.StringVar(&tag, "tag", "", "segment `tag`")
	f.BoolVar(&uid, "uid", false, "the starts of the UID mode")
	f.BoolVar(&registry, "registry", false, "another registry of worker IDs, or snowflake.name")
	f.StringVar(&deployment, "deployment", "", "`ID` of the deployment whose database is gone")
	cmd.MarkFlagsRequiredTogether("app", "name")
	cmd.MarkFlagsOneRequired("app", "tag", "uid", "registry", "deployment")
	cmd.MarkFlagsMutuallyExclusive("app", "tag", "uid", "registry", "deployment")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		key, err := model.NewListKey(id, 0)
		if err != nil && cmd.Flags().Changed("app") {
			return err
		}
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			service, err := adminOn(cfg, db)
			if err != nil {
				return err
			}
			var target string
			var run func(context.Context) (int64, error)
			switch {
			case tag != "":
				target, run = "tag "+tag, func(ctx context.Context) (int64, error) { return db.ConfirmTag(ctx, tag) }
			case uid:
				target, run = "starts of the UID mode", db.ConfirmNodes
			case registry:
				target, run = "registry of worker IDs", db.ForgetWorkerClaims
			case deployment != "":
				target, run = "deployment "+deployment, func(ctx context.Context) (int64, error) { return db.Adopt(ctx, deployment) }
			default:
				target, run = fmt.Sprintf("app %d", id), func(ctx context.Context) (int64, error) { return db.ConfirmApp(ctx, key.App, name) }
			}
			waited, err := service.Confirm(ctx, operator(), target, run)
			switch {
			case err != nil:
				return err
			case waited == 0:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: nothing waited for a confirmation, nothing was changed\n", target)
			default:
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: confirmed; running replicas go on within seconds\n", target)
			}
			return err
		})
	})
}
