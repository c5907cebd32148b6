package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

func (c *cli) sequences() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sequences",
		Short: "List the spaces of sequences, as sequences list does, or administrate them",
		Long: `List the spaces of sequences, as sequences list does, or administrate them. A space has a
sequence for each key, as many as Redis holds: numbers that rise over all replicas. Keys need
no provisioning.`,
		Example: "  shardid sequences\n  shardid sequences list --json\n  shardid sequences add --space chat",
		Args:    cobra.NoArgs,
	}
	list := &cobra.Command{Use: "list", Short: "List the spaces of sequences", Example: "  shardid sequences list\n  shardid sequences list --json", Args: cobra.NoArgs}
	cmd.AddCommand(c.listSequences(list), c.sequencesAdd(), c.sequencesSet(), c.sequencesDelete())
	return c.listSequences(cmd)
}

func (c *cli) listSequences(cmd *cobra.Command) *cobra.Command {
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		spaces, err := o.db.Spaces(ctx)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.Items(spaces, httpapi.NewSpaceUseItem), table(spaces,
			"there is no space of sequences: shardid sequences add --space chat",
			"SPACE\tSECTIONS\tSTEP\tUSED\tHIGHEST", func(u model.SpaceUse) []any {
				return []any{u.Name, u.Sections, u.Step, fmt.Sprintf("%d of %d", u.Used, u.Sections), u.Highest}
			}))
	})
}

func (c *cli) sequencesAdd() *cobra.Command {
	var space model.Space
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   "add --space NAME",
		Short: "Add a space of sequences; the number of its sections never changes",
		Example: `  shardid sequences add --space chat
  shardid sequences add --if-missing --space chat              # in a script that runs again
  shardid sequences add --space feed --sections 4096 --step 100000`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&space.Name, "space", "", "`name`, at most 64 letters, digits, dots, hyphens and underscores")
	f.IntVar(&space.Sections, "sections", model.DefaultSections, "`number` of sections over which the keys are spread, 1…16384: a row of the database each")
	stepFlag(cmd, &space.Step)
	f.BoolVar(&ifMissing, "if-missing", false, "change nothing when the space is there with these sections and this step, for scripts that run again")
	required(cmd, "space")
	return c.withStores(cmd, nil, func(ctx context.Context, o opened) error {
		found, made, err := ensure(ifMissing, func() (model.Space, bool) {
			there, err := o.db.Space(ctx, space.Name)
			return there.Space, err == nil && there.Space == space
		}, func() (model.Space, error) { return o.admin.CreateSpace(ctx, operator(), space) })
		if ifMissing && errors.Is(err, model.ErrSpaceExists) {
			return o.otherSpace(ctx, space, err)
		}
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewSpaceItem(found), func(w io.Writer) {
			if !made {
				fmt.Fprintf(w, "space %s is there, nothing was changed\n", found.Name)
				return
			}
			fmt.Fprintf(w, "space %s has a sequence for each key, %s", found.Name, admin.SpaceEffect)
			if server, err := serverURL(o.cfg.Server); err == nil {
				fmt.Fprintf(w, ": curl -X POST '%s/v1/sequence/%s/ids?key=room42'", server, url.PathEscape(found.Name))
			}
			fmt.Fprintln(w)
		})
	})
}

// otherSpace says in what a space that is there differs from the one that was to be added, and
// what to do about it.
func (o opened) otherSpace(ctx context.Context, want model.Space, exists error) error {
	there, err := o.db.Space(ctx, want.Name)
	switch {
	case err != nil:
		return exists
	case there.Sections != want.Sections:
		return fmt.Errorf("%w: it has %d sections, not %d, and they never change: add it with --sections %[2]d, or another space",
			exists, there.Sections, want.Sections)
	}
	return fmt.Errorf("%w: its step is %d, not %d: change it with `shardid sequences set --space %s --step %[3]d`",
		exists, there.Step, want.Step, want.Name)
}

// stepFlag registers --step.
func stepFlag(cmd *cobra.Command, step *int64) {
	cmd.Flags().Int64Var(step, "step", model.DefaultSequenceStep, "`numbers` that a section takes from the database at once, 1…1000000")
}

// spaceFlag registers --space of a space that is there.
func spaceFlag(cmd *cobra.Command, space *string) {
	cmd.Flags().StringVar(space, "space", "", "`name` of a space of sequences")
	complete(cmd, "space", spacesOfDatabase)
}

func (c *cli) sequencesSet() *cobra.Command {
	var name string
	var step int64
	cmd := &cobra.Command{
		Use:   "set --space NAME --step NUMBERS",
		Short: "Change how many numbers a section of a space takes from the database at once",
		Long: `Change how many numbers a section of a space takes from the database at once. A larger step
means fewer writes, and leaves out more numbers when Redis loses its data.`,
		Example: "  shardid sequences set --space chat --step 100000",
		Args:    cobra.NoArgs,
	}
	spaceFlag(cmd, &name)
	stepFlag(cmd, &step)
	required(cmd, "space", "step")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		changed, err := o.admin.ChangeSpace(ctx, operator(), name, step)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewSpaceItem(changed), func(w io.Writer) {
			fmt.Fprintf(w, "space %s takes %d numbers at once, %s\n", changed.Name, changed.Step, admin.SpaceEffect)
		})
	})
}

func (c *cli) sequencesDelete() *cobra.Command {
	var name, confirm string
	cmd := &cobra.Command{
		Use:     "delete --space NAME --confirm NAME",
		Short:   "Delete a space of sequences; its numbers are remembered, should it come back",
		Example: "  shardid sequences delete --space chat --confirm chat",
		Args:    cobra.NoArgs,
	}
	spaceFlag(cmd, &name)
	cmd.Flags().StringVar(&confirm, "confirm", "", "the `name` again")
	required(cmd, "space", "confirm")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		was, err := o.admin.DeleteSpace(ctx, operator(), name, confirm)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewSpaceItem(was), func(w io.Writer) {
			fmt.Fprintf(w, "space %s is deleted, %s; should it come back, all of its sequences go on above its numbers\n", was.Name, admin.SpaceEffect)
		})
	})
}

// spacesOfDatabase are the spaces of sequences.
func spacesOfDatabase(ctx context.Context, cfg Config) (all []answer, err error) {
	err = reading(ctx, cfg, func(db *sqlstore.Store) error {
		spaces, err := db.Spaces(ctx)
		for _, u := range spaces {
			all = append(all, answer{value: u.Name})
		}
		return err
	})
	return all, err
}
