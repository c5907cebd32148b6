package main

import (
	"context"
	"io"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

// appFlags are what apps set can change.
type appFlags struct {
	id                                  int64
	name, description, policy, confirm  string
	step, maxLimitID, minIndex, maxRate int64
}

func (c *cli) appsSet() *cobra.Command {
	var flags appFlags
	cmd := &cobra.Command{
		Use:   "set --app ID",
		Short: "Change an app: only what is given, and nothing that would let an ID repeat",
		Example: `  shardid apps set --app 7 --step 5000
  shardid apps set --app 7 --max-limit-id 0 --name "orders, all of them"
  shardid apps set --app 7 --min-index 1000000                         # every shard goes on above it
  shardid apps set --app 7 --max-limit-id 4294967295 --limit-policy wrap --confirm orders`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Int64Var(&flags.id, "app", -1, "app `ID`, 0…255")
	f.StringVar(&flags.name, "name", "", "app `name`")
	f.StringVar(&flags.description, "description", "", "`text` for people")
	f.Int64Var(&flags.step, "step", 0, "smallest segment, in `indices`")
	f.Int64Var(&flags.maxLimitID, "max-limit-id", 0, "highest `ID` that may be issued, 0 for none; not below one that may have been")
	choose(cmd, &flags.policy, "limit-policy", "", "above the limit: reject, or wrap, which repeats IDs and needs --confirm", "reject", "wrap")
	f.Int64Var(&flags.minIndex, "min-index", 0, "raise max_id of every shard to this `index`")
	f.Int64Var(&flags.maxRate, "max-rate", 0, "most `indices` a second of each shard, 0 for queue.max_list_rate; a higher one counts a minute later")
	f.StringVar(&flags.confirm, "confirm", "", "`name` of the app")
	required(cmd, "app")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		key, err := model.NewListKey(flags.id, 0)
		if err != nil {
			return err
		}
		return c.changeData(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			after, _, err := service.ChangeApp(ctx, operator(), key.App, flags.change(cmd))
			if err != nil {
				return err
			}
			return c.print(cmd, httpapi.NewAppItem(after), func(w io.Writer) {
				appsTable([]model.AppSummary{after})(w)
				tell(w, "app %d is changed", after.ID)
			})
		})
	})
}

func (a *appFlags) change(cmd *cobra.Command) model.AppChange {
	f, policy := cmd.Flags(), model.LimitPolicy(a.policy)
	return model.AppChange{
		Name: given(f, "name", &a.name), Description: given(f, "description", &a.description),
		Step: given(f, "step", &a.step), MaxLimitID: given(f, "max-limit-id", &a.maxLimitID),
		LimitPolicy: given(f, "limit-policy", &policy), MinIndex: given(f, "min-index", &a.minIndex), MaxRate: given(f, "max-rate", &a.maxRate), Confirm: a.confirm,
	}
}

func (c *cli) appsDelete() *cobra.Command {
	var flags appFlags
	cmd := &cobra.Command{
		Use:     "delete --app ID --confirm NAME",
		Short:   "Delete an app; what it handed out is remembered, should it come back",
		Example: "  shardid apps delete --app 7 --confirm orders",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Int64Var(&flags.id, "app", -1, "app `ID`, 0…255")
	cmd.Flags().StringVar(&flags.confirm, "confirm", "", "`name` of the app")
	required(cmd, "app", "confirm")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		key, err := model.NewListKey(flags.id, 0)
		if err != nil {
			return err
		}
		return c.changeData(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			was, _, err := service.DeleteApp(ctx, operator(), key.App, flags.confirm)
			if err != nil {
				return err
			}
			return c.print(cmd, httpapi.NewAppItem(was), func(w io.Writer) {
				tell(w, "app %d (%s) is deleted; should it come back, it goes on above index %d", was.ID, was.Name, was.HighestIndex)
			})
		})
	})
}
