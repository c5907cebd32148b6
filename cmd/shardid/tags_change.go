package main

import (
	"context"
	"io"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

func (c *cli) tagsSet() *cobra.Command {
	var tag model.Tag
	var maxRate int64
	cmd := &cobra.Command{
		Use:   "set --tag NAME",
		Short: "Change a tag: only what is given; max_id only rises",
		Example: `  shardid tags set --tag orders --step 5000
  shardid tags set --tag orders --max-id 1000000 --description "after the old system"`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&tag.Name, "tag", "", "tag `name`")
	f.Int64Var(&tag.Step, "step", 0, "smallest segment, in `IDs`")
	f.Int64Var(&tag.MaxID, "max-id", 0, "next `ID` to hand out, not below the present one")
	f.StringVar(&tag.Description, "description", "", "`text` for people")
	f.Int64Var(&maxRate, "max-rate", 0, "most `IDs` a second, 0 for segment.max_rate; a higher one counts a minute later")
	required(cmd, "tag")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		change := model.TagChange{
			Step: given(f, "step", &tag.Step), MaxID: given(f, "max-id", &tag.MaxID), Description: given(f, "description", &tag.Description),
			MaxRate: given(f, "max-rate", &maxRate),
		}
		return c.changeData(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			after, _, err := service.ChangeTag(ctx, operator(), tag.Name, change)
			if err != nil {
				return err
			}
			return c.print(cmd, httpapi.NewTagItem(after), func(w io.Writer) {
				tagsTable([]model.Tag{after})(w)
				tell(w, "tag %s is changed", after.Name)
			})
		})
	})
}

func (c *cli) tagsDelete() *cobra.Command {
	var name, confirm string
	cmd := &cobra.Command{
		Use:     "delete --tag NAME --confirm NAME",
		Short:   "Delete a tag; what it handed out is remembered, should it come back",
		Example: "  shardid tags delete --tag orders --confirm orders",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&name, "tag", "", "tag `name`")
	cmd.Flags().StringVar(&confirm, "confirm", "", "the `name` again")
	required(cmd, "tag", "confirm")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return c.changeData(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			was, _, err := service.DeleteTag(ctx, operator(), name, confirm)
			if err != nil {
				return err
			}
			return c.print(cmd, httpapi.NewTagItem(was), func(w io.Writer) {
				tell(w, "tag %s is deleted; should it come back, it goes on at %d", was.Name, was.MaxID)
			})
		})
	})
}
