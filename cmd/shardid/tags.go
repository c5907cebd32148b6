package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

func (c *cli) tags() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tags",
		Short:   "List the tags of the segment mode",
		Example: "  shardid tags\n  shardid tags --json\n  shardid tags add --tag orders --step 2000",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(c.tagsAdd(), c.tagsSet(), c.tagsDelete(), c.tagsImport())
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		tags, err := o.db.Tags(ctx)
		if err != nil {
			return err
		}
		items := make([]httpapi.TagItem, len(tags))
		for i, t := range tags {
			items[i] = httpapi.NewTagItem(t)
		}
		return c.print(cmd, items, tagsTable(tags...))
	})
}

func tagsTable(tags ...model.Tag) func(io.Writer) {
	return table(tags, "there is no tag: shardid tags add --tag orders --step 2000",
		"TAG\tNEXT ID\tSTEP\tUPDATED\tDESCRIPTION", func(t model.Tag) []any {
			return []any{t.Name, t.MaxID, t.Step, t.UpdatedAt.UTC().Format(time.RFC3339), t.Description}
		})
}

func (c *cli) tagsAdd() *cobra.Command {
	var tag model.Tag
	cmd := &cobra.Command{
		Use:   "add --tag NAME",
		Short: "Add a tag to leaf_alloc",
		Example: `  shardid tags add --tag orders --step 2000
  shardid tags add --tag invoices --step 100 --max-id 50001 --description "after the old system"`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&tag.Name, "tag", "", "tag `name`, at most 128 bytes")
	f.Int64Var(&tag.Step, "step", admin.DefaultTagStep, "smallest segment, in `IDs`")
	f.Int64Var(&tag.MaxID, "max-id", 1, "first `ID` to hand out")
	f.StringVar(&tag.Description, "description", "", "`text` for people")
	required(cmd, "tag")
	return c.withStores(cmd, nil, func(ctx context.Context, o opened) error {
		made, _, err := o.admin.CreateTag(ctx, operator(), tag)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewTagItem(made), func(w io.Writer) {
			fmt.Fprintf(w, "tag %s starts at %d", made.Name, made.MaxID)
			if server, err := serverURL(o.cfg.Server); err == nil {
				fmt.Fprintf(w, ": curl %s/api/segment/get/%s", server, url.PathEscape(made.Name))
			}
			fmt.Fprintln(w)
		})
	})
}

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
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		after, _, err := o.admin.ChangeTag(ctx, operator(), tag.Name, model.TagChange{
			Step: given(f, "step", &tag.Step), MaxID: given(f, "max-id", &tag.MaxID),
			Description: given(f, "description", &tag.Description), MaxRate: given(f, "max-rate", &maxRate),
		})
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewTagItem(after), func(w io.Writer) {
			tagsTable(after)(w)
			tell(w, "tag %s is changed", after.Name)
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
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		was, _, err := o.admin.DeleteTag(ctx, operator(), name, confirm)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewTagItem(was), func(w io.Writer) {
			tell(w, "tag %s is deleted; should it come back, it goes on at %d", was.Name, was.MaxID)
		})
	})
}
