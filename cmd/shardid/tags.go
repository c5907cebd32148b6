package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"

	"github.com/spf13/cobra"
)

// defaultTagStep is the smallest segment of a tag that names none, in IDs.
const defaultTagStep = admin.DefaultTagStep

func (c *cli) tags() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "tags",
		Short:   "List the tags of the segment mode",
		Example: "  shardid tags\n  shardid tags --json\n  shardid tags add --tag orders --step 2000",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	cmd.AddCommand(c.tagsAdd(), c.tagsSet(), c.tagsDelete())
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			tags, err := db.Tags(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(tagObjects(tags))
			}
			return printTags(cmd.OutOrStdout(), tags)
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
	if err := cmd.MarkFlagRequired("tag"); err != nil {
		panic(err) // the flag is registered a few lines above
	}
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return c.runAdmin(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			made, _, err := service.CreateTag(ctx, operator(), tag)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "tag %s starts at %d: curl http://127.0.0.1:8080/api/segment/get/%s\n", made.Name, made.MaxID, url.PathEscape(made.Name))
			return err
		})
	})
}

func printTags(w io.Writer, tags []model.Tag) error {
	if len(tags) == 0 {
		_, err := fmt.Fprintln(w, "there is no tag: shardid tags add --tag orders --step 2000")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TAG\tNEXT ID\tSTEP\tUPDATED\tDESCRIPTION")
	for _, t := range tags {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\n", t.Name, t.MaxID, t.Step, t.UpdatedAt.UTC().Format(time.RFC3339), t.Description)
	}
	return tw.Flush()
}

// tagObject is a tag in JSON.
type tagObject struct {
	Tag         string    `json:"tag"`
	MaxID       int64     `json:"maxId"`
	Step        int64     `json:"step"`
	Description string    `json:"description"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

func tagObjects(tags []model.Tag) []tagObject {
	out := make([]tagObject, len(tags))
	for i, t := range tags {
		out[i] = tagObject{Tag: t.Name, MaxID: t.MaxID, Step: t.Step, Description: t.Description, UpdatedAt: t.UpdatedAt.UTC()}
	}
	return out
}
