package main

import (
	"context"
	"fmt"
	"io"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

// defaultStep is the smallest segment of an app that names none, in indices.
const defaultStep = admin.DefaultStep

func (c *cli) provision() *cobra.Command {
	var id int64
	var policy string
	var app model.App
	cmd := &cobra.Command{
		Use:   "provision --app ID --name NAME",
		Short: "Provision the 64 shards of an app, all or none",
		Example: `  shardid provision --app 1 --name test
  shardid provision --app 7 --name orders --step 5000 --max-limit-id 4294967295`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Int64Var(&id, "app", -1, "app `ID`, 0…255")
	f.StringVar(&app.Name, "name", "", "app `name`")
	f.StringVar(&app.Description, "description", "", "`text` for people")
	f.Int64Var(&app.Step, "step", defaultStep, "smallest segment, in `indices`")
	f.Int64Var(&app.Limit.MaxID, "max-limit-id", 0, "highest `ID` that may be issued, 0 for none")
	choose(cmd, &policy, "limit-policy", string(model.LimitReject), "above the limit: reject, or wrap, which repeats IDs", "reject", "wrap")
	required(cmd, "app", "name")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		key, err := model.NewListKey(id, 0)
		if err != nil {
			return err
		}
		app.ID, app.Limit.Policy = key.App, model.LimitPolicy(policy)
		return c.runAdmin(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			made, _, err := service.CreateApp(ctx, operator(), app)
			if err != nil {
				return err
			}
			return c.print(cmd, httpapi.NewAppItem(made), func(w io.Writer) {
				fmt.Fprintf(w, "app %d (%s) has its %d shards%s\n", made.ID, made.Name, made.Shards, cameBack(made))
			})
		})
	})
}

// cameBack says where an app goes on that was deleted before.
func cameBack(app model.AppSummary) string {
	if app.HighestIndex == 0 {
		return ""
	}
	return fmt.Sprintf("; it goes on above what it had handed out before it was deleted, up to index %d", app.HighestIndex)
}

func (c *cli) apps() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "apps",
		Short:   "List the provisioned apps",
		Example: "  shardid apps\n  shardid apps --json\n  shardid apps set --app 7 --step 5000\n  shardid apps delete --app 7 --confirm orders",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(c.appsSet(), c.appsDelete())
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			apps, err := db.Apps(ctx)
			if err != nil {
				return err
			}
			items := make([]httpapi.AppItem, len(apps))
			for i, a := range apps {
				items[i] = httpapi.NewAppItem(a)
			}
			return c.print(cmd, items, appsTable(apps))
		})
	})
}

func appsTable(apps []model.AppSummary) func(io.Writer) {
	return func(w io.Writer) {
		if len(apps) == 0 {
			fmt.Fprintln(w, "no app is provisioned: shardid provision --app 1 --name test")
			return
		}
		fmt.Fprintln(w, "APP\tNAME\tSHARDS\tSTEP\tHIGHEST INDEX\tMAX LIMIT ID\tPOLICY\tDESCRIPTION")
		for _, a := range apps {
			fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n",
				a.ID, a.Name, a.Shards, a.Step, a.HighestIndex, a.Limit.MaxID, a.Limit.Policy, a.Description)
		}
	}
}
