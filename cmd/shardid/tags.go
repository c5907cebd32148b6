package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

// defaultTagStep is the smallest segment of a tag that names none, in IDs.
const defaultTagStep = admin.DefaultTagStep

func (c *cli) tags() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tags",
		Short:   "List the tags of the segment mode",
		Example: "  shardid tags\n  shardid tags --json\n  shardid tags add --tag orders --step 2000",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(c.tagsAdd(), c.tagsSet(), c.tagsDelete())
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			tags, err := db.Tags(ctx)
			if err != nil {
				return err
			}
			items := make([]httpapi.TagItem, len(tags))
			for i, t := range tags {
				items[i] = httpapi.NewTagItem(t)
			}
			return c.print(cmd, items, tagsTable(tags))
		})
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
	f.Int64Var(&tag.Step, "step", defaultTagStep, "smallest segment, in `IDs`")
	f.Int64Var(&tag.MaxID, "max-id", 1, "first `ID` to hand out")
	f.StringVar(&tag.Description, "description", "", "`text` for people")
	required(cmd, "tag")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return c.runAdmin(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			made, _, err := service.CreateTag(ctx, operator(), tag)
			if err != nil {
				return err
			}
			return c.print(cmd, httpapi.NewTagItem(made), func(w io.Writer) {
				fmt.Fprintf(w, "tag %s starts at %d", made.Name, made.MaxID)
				if server, err := serverURL(cfg.Server); err == nil {
					fmt.Fprintf(w, ": curl %s/api/segment/get/%s", server, url.PathEscape(made.Name))
				}
				fmt.Fprintln(w)
			})
		})
	})
}

func tagsTable(tags []model.Tag) func(io.Writer) {
	return func(w io.Writer) {
		if len(tags) == 0 {
			fmt.Fprintln(w, "there is no tag: shardid tags add --tag orders --step 2000")
			return
		}
		fmt.Fprintln(w, "TAG\tNEXT ID\tSTEP\tUPDATED\tDESCRIPTION")
		for _, t := range tags {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", t.Name, t.MaxID, t.Step, t.UpdatedAt.UTC().Format(time.RFC3339), t.Description)
		}
	}
}
