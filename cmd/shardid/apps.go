package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"

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
	f.StringVar(&policy, "limit-policy", string(model.LimitReject), "above the limit: reject, or wrap, which repeats IDs")
	for _, name := range []string{"app", "name"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is registered a few lines above
		}
	}
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
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "app %d (%s) has its %d shards%s\n", made.ID, made.Name, made.Shards, cameBack(made))
			return err
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "apps",
		Short:   "List the provisioned apps",
		Example: "  shardid apps\n  shardid apps --json\n  shardid apps set --app 7 --step 5000\n  shardid apps delete --app 7 --confirm orders",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.AddCommand(c.appsSet(), c.appsDelete())
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			apps, err := db.Apps(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(appObjects(apps))
			}
			return printApps(cmd.OutOrStdout(), apps)
		})
	})
}

func printApps(w io.Writer, apps []model.AppSummary) error {
	if len(apps) == 0 {
		_, err := fmt.Fprintln(w, "no app is provisioned: shardid provision --app 1 --name test")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "APP\tNAME\tSHARDS\tSTEP\tHIGHEST INDEX\tMAX LIMIT ID\tPOLICY\tDESCRIPTION")
	for _, a := range apps {
		fmt.Fprintf(tw, "%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n",
			a.ID, a.Name, a.Shards, a.Step, a.HighestIndex, a.Limit.MaxID, a.Limit.Policy, a.Description)
	}
	return tw.Flush()
}

// appObject is an app in JSON.
type appObject struct {
	ID           uint8  `json:"id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	Shards       int    `json:"shards"`
	Step         int64  `json:"step"`
	MaxLimitID   int64  `json:"maxLimitId"`
	LimitPolicy  string `json:"limitPolicy"`
	HighestIndex int64  `json:"highestIndex"`
	TotalIndices int64  `json:"totalIndices"`
}

func appObjects(apps []model.AppSummary) []appObject {
	out := make([]appObject, len(apps))
	for i, a := range apps {
		out[i] = appObject{
			ID: a.ID, Name: a.Name, Description: a.Description, Shards: a.Shards, Step: a.Step,
			MaxLimitID: a.Limit.MaxID, LimitPolicy: string(a.Limit.Policy),
			HighestIndex: a.HighestIndex, TotalIndices: a.TotalIndices,
		}
	}
	return out
}
