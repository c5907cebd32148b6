package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"shardid/model"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

func (c *cli) tags() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tags",
		Short:   "List the tags of the segment mode, as tags list does, or administrate them",
		Example: "  shardid tags\n  shardid tags list --json\n  shardid tags add --tag orders --step 2000",
		Args:    cobra.NoArgs,
	}
	list := &cobra.Command{Use: "list", Short: "List the tags of the segment mode", Example: "  shardid tags list\n  shardid tags list --json", Args: cobra.NoArgs}
	cmd.AddCommand(c.listTags(list), c.tagsAdd(), c.tagsSet(), c.tagsDelete(), c.tagsPreview())
	return c.listTags(cmd)
}

func (c *cli) listTags(cmd *cobra.Command) *cobra.Command {
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		tags, err := o.db.Tags(ctx)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.Items(tags, httpapi.NewTagItem), tagsTable(tags...))
	})
}

func tagsTable(tags ...model.Tag) func(io.Writer) {
	return table(tags, "there is no tag: shardid tags add --tag orders --step 2000",
		"TAG\tNEXT ID\tSTEP\tUPDATED\tDESCRIPTION", func(t model.Tag) []any {
			return []any{t.Name, nextOf(t), t.Step, t.UpdatedAt.UTC().Format(time.RFC3339), t.Description}
		})
}

// nextOf is a tag's next ID.
func nextOf(t model.Tag) string {
	return cmp.Or(t.Example(time.Now()), strconv.FormatInt(t.NextID(), 10))
}

func (c *cli) tagsAdd() *cobra.Command {
	var tag model.Tag
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   "add --tag NAME",
		Short: "Add a tag to leaf_alloc",
		Example: `  shardid tags add --tag orders --step 2000
  shardid tags add --if-missing --tag orders --step 2000    # in a script that runs again
  shardid tags add --tag invoices --step 100 --max-id 50001 --description "after the old system"
  shardid tags add --tag carts --fresh carts                # no tag of that name was ever used
  shardid tags add --tag orders --step 100 --pattern 'ORD-{yyyyMMdd}-{seq:8}' --reset day --zone Asia/Shanghai`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	numberFlags(cmd, &tag.Numbering)
	f.StringVar(&tag.Name, "tag", "", "tag `name`, at most 128 bytes")
	f.Int64Var(&tag.Step, "step", admin.DefaultTagStep, "smallest segment, in `IDs`")
	f.Int64Var(&tag.MaxID, "max-id", 1, "first `ID` to hand out")
	f.StringVar(&tag.Description, "description", "", "`text` for people")
	freshFlag(cmd, &tag.Fresh, "tag of this name", "--max-id")
	f.BoolVar(&ifMissing, "if-missing", false, "change nothing when the tag is there with this pattern, for scripts that run again")
	required(cmd, "tag")
	return c.withStores(cmd, nil, func(ctx context.Context, o opened) error {
		found, made, err := ensure(ifMissing, func() (model.Tag, bool) {
			there, err := o.db.Tag(ctx, tag.Name)
			if numbers, wrong := tag.Numbers(); wrong == nil && numbers != nil {
				return there, err == nil && there.Numbering == numbers.Numbering
			}
			return there, err == nil && there.Numbering == tag.Numbering
		}, func() (model.Tag, error) {
			found, _, err := o.admin.CreateTag(ctx, operator(), tag)
			return found, err
		})
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewTagItem(found), func(w io.Writer) {
			if !made {
				fmt.Fprintf(w, "tag %s is there, nothing was changed\n", found.Name)
				return
			}
			path := "/api/segment/get/" + url.PathEscape(found.Name)
			if found.Pattern != "" {
				path = "/v1/segment/" + url.PathEscape(found.Name) + "/ids"
			}
			fmt.Fprintf(w, "tag %s starts at %s", found.Name, nextOf(found))
			if server, err := serverURL(o.cfg.Server); err == nil {
				fmt.Fprintf(w, ": curl %s%s", server, path)
			}
			fmt.Fprintln(w)
			printNotice(w, found.Notice())
		})
	})
}

// numberFlags say how the IDs of a tag are shown.
func numberFlags(cmd *cobra.Command, n *model.Numbering) {
	f := cmd.Flags()
	f.StringVar(&n.Pattern, "pattern", "", "`text` of the IDs, with {yyyyMMdd}, {yyyyMM}, {yyyy}, {MM}, {dd} and one {seq:N}")
	choose(cmd, (*string)(&n.Reset), "reset", "", "when {seq:N} begins at 1 again: day, month, year or none", "day", "month", "year", "none")
	f.StringVar(&n.Zone, "zone", "", "in which days begin: UTC (default), +05:30, or a `name` such as Asia/Shanghai")
	choose(cmd, (*string)(&n.Overflow), "overflow", "", "what follows N digits: widen (default) or refuse", "widen", "refuse")
}

func (c *cli) tagsPreview() *cobra.Command {
	var n model.Numbering
	var at string
	cmd := &cobra.Command{
		Use:   "preview --pattern TEXT --reset PERIOD",
		Short: "Show what the IDs of a pattern look like; no database is asked",
		Example: `  shardid tags preview --pattern 'ORD-{yyyyMMdd}-{seq:8}' --reset day --zone Asia/Shanghai
  shardid tags preview --pattern '{yyyyMM}{seq:4}' --reset month --overflow refuse --at 2026-12-31T23:59:59Z`,
		Args: cobra.NoArgs,
	}
	numberFlags(cmd, &n)
	cmd.Flags().StringVar(&at, "at", "", "`time` of the first ID, such as 2026-12-31T23:59:59Z; now by default")
	required(cmd, "pattern", "reset")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		now := time.Now()
		if at != "" {
			var err error
			if now, err = time.Parse(time.RFC3339, at); err != nil {
				return fmt.Errorf("%w: --at %q is not a time such as 2026-12-31T23:59:59Z", model.ErrInvalidArgument, at)
			}
		}
		numbers, err := model.Tag{Numbering: n, Region: region(cfg)}.Numbers()
		if err != nil {
			return err
		}
		examples, err := numbers.Examples(now)
		if err != nil {
			return err
		}
		return c.print(cmd, examples, func(w io.Writer) {
			for _, e := range examples {
				fmt.Fprintf(w, "%-22s %s\n", e.What, e.Text)
			}
		})
	})
}

func (c *cli) tagsSet() *cobra.Command {
	var tag model.Tag
	var maxRate int64
	var after string
	cmd := &cobra.Command{
		Use:   "set --tag NAME",
		Short: "Change a tag: only what is given; max_id only rises",
		Example: `  shardid tags set --tag orders --step 5000
  shardid tags set --tag orders --max-id 1000000 --description "after the old system"
  shardid tags set --tag orders --after ORD-20261122-00000500`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&tag.Name, "tag", "", "tag `name`")
	complete(cmd, "tag", tagsOfDatabase)
	f.Int64Var(&tag.Step, "step", 0, "smallest segment, in `IDs`")
	f.Int64Var(&tag.MaxID, "max-id", 0, "next `ID` to hand out, not below the present one")
	f.StringVar(&after, "after", "", "business `number` after which to go on, in place of --max-id")
	f.StringVar(&tag.Description, "description", "", "`text` for people")
	f.Int64Var(&maxRate, "max-rate", 0, "most `IDs` a second, at most segment.max_rate, 0 for that one")
	required(cmd, "tag")
	cmd.MarkFlagsMutuallyExclusive("after", "max-id")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		change := model.TagChange{
			Step: given(f, "step", &tag.Step), MaxID: given(f, "max-id", &tag.MaxID),
			Description: given(f, "description", &tag.Description), MaxRate: given(f, "max-rate", &maxRate),
		}
		if after != "" {
			stored, err := o.db.Tag(ctx, tag.Name)
			if err != nil {
				return err
			}
			id, err := stored.ID(after)
			if err != nil {
				return err
			}
			id++
			change.MaxID = &id
		}
		changed, _, err := o.admin.ChangeTag(ctx, operator(), tag.Name, change)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewTagItem(changed), func(w io.Writer) {
			tagsTable(changed)(w)
			tell(w, "tag %s is changed", changed.Name)
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
	complete(cmd, "tag", tagsOfDatabase)
	cmd.Flags().StringVar(&confirm, "confirm", "", "the `name` again")
	required(cmd, "tag", "confirm")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		was, _, err := o.admin.DeleteTag(ctx, operator(), name, confirm)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewTagItem(was), func(w io.Writer) {
			tell(w, "tag %s is deleted; should it come back, it goes on at %s", was.Name, nextOf(was))
		})
	})
}
