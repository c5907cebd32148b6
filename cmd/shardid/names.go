package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

func (c *cli) names() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "names",
		Short: "List the names of worker IDs, as names list does, or administrate them",
		Long: `List the names of worker IDs, as names list does, or administrate them. A name is a
space of worker IDs with a layout of its own, for programs that make IDs themselves.
snowflake.name, which the replicas use, comes first: its leases are those of the registry
that snowflake.worker.mode names.`,
		Example: "  shardid names\n  shardid names list --json\n  shardid names add --name orders --hold 60s",
		Args:    cobra.NoArgs,
	}
	list := &cobra.Command{Use: "list", Short: "List the names of worker IDs", Example: "  shardid names list\n  shardid names list --json", Args: cobra.NoArgs}
	cmd.AddCommand(c.listNames(list), c.namesAdd(), c.namesSet(), c.namesDelete())
	return c.listNames(cmd)
}

// nameObject is a name in JSON. One of the replicas' own has no hold.
type nameObject struct {
	httpapi.NameItem
	Hold   string `json:"hold,omitempty"`
	Leased *int64 `json:"leased"` // null where the registry cannot be listed
	Own    bool   `json:"own"`    // it is snowflake.name
}

func newNameObject(u model.NameUse) nameObject {
	item := httpapi.NewUseItem(u)
	return nameObject{NameItem: item, Hold: item.Hold, Leased: &u.Leased}
}

func (c *cli) listNames(cmd *cobra.Command) *cobra.Command {
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		names, err := o.db.Names(ctx)
		if err != nil {
			return err
		}
		own, unlisted := o.ownName(ctx)
		objects := append([]nameObject{own}, httpapi.Items(names, newNameObject)...)
		err = c.print(cmd, objects, func(w io.Writer) {
			namesTable(objects...)(w)
			if len(names) == 0 {
				fmt.Fprintln(w, "there is no name for callers: shardid names add --name orders")
			}
		})
		return errors.Join(err, unlisted)
	})
}

func namesTable(objects ...nameObject) func(io.Writer) {
	return table(objects, "", "NAME\tEPOCH\tWORKER BITS\tSEQ BITS\tHOLD\tLEASED\tBY", func(n nameObject) []any {
		leased, hold, by := "-", n.Hold, "callers"
		if n.Leased != nil {
			leased = strconv.FormatInt(*n.Leased, 10)
		}
		if n.Own {
			hold, by = "-", "the replicas, this is snowflake.name"
		}
		return []any{n.Name, n.Epoch, n.WorkerBits, n.SeqBits, hold, leased + " of " + strconv.FormatInt(n.Workers, 10), by}
	})
}

// ownName is the space of worker IDs that the replicas use, with the layout of the snowflakes
// that were issued, or the configured one before the first. With an error of the registry it
// lacks how much is leased.
func (o opened) ownName(ctx context.Context) (nameObject, error) {
	layout := snowflakeLayout(o.cfg)
	_, err := o.db.HasLayout(ctx, snowflakeRecord(o.cfg))
	if changed, ok := errors.AsType[*model.LayoutChangedError](err); ok {
		layout, err = model.ParseSnowflakeLayout(strings.TrimSuffix(changed.Recorded, region(o.cfg).Suffix()))
	}
	own := nameObject{Own: true, NameItem: httpapi.NewNameItem(model.Name{
		Name: o.cfg.Snowflake.Name, EpochMs: layout.EpochMs, WorkerBits: layout.WorkerBits, SeqBits: layout.SeqBits,
	}, 0)}
	if err != nil || o.cfg.Snowflake.Worker.Mode == workerOrdinal {
		return own, err
	}
	workers, err := o.ownWorkers(ctx)
	if err == nil {
		own.Leased = &workers.leased
	}
	return own, err
}

func (c *cli) namesAdd() *cobra.Command {
	name := model.Name{Hold: model.DefaultHold}
	var ifMissing bool
	cmd := &cobra.Command{
		Use:   "add --name NAME",
		Short: "Add a name of worker IDs; its layout never changes",
		Example: `  shardid names add --name orders
  shardid names add --if-missing --name orders              # in a script that runs again
  shardid names add --name carts --epoch 1767225600000 --worker-bits 12 --seq-bits 10 --hold 5m`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&name.Name, "name", "", "`name`, at most 64 letters, digits, dots, hyphens and underscores")
	f.Int64Var(&name.EpochMs, "epoch", admin.DefaultEpochMs, "from which the time in IDs counts, in Unix `milliseconds`")
	f.UintVar(&name.WorkerBits, "worker-bits", admin.DefaultWorkerBits, "`width` of the worker ID in an ID, 1…22, with --seq-bits 24 at most")
	f.UintVar(&name.SeqBits, "seq-bits", admin.DefaultSeqBits, "`width` of the sequence in an ID, 1…22")
	holdFlag(cmd, &name.Hold)
	f.BoolVar(&ifMissing, "if-missing", false, "change nothing when the name is there with this layout, for scripts that run again")
	required(cmd, "name")
	return c.withStores(cmd, nil, func(ctx context.Context, o opened) error {
		found, made, err := ensure(ifMissing, func() (model.NameUse, bool) {
			there, err := o.db.Name(ctx, name.Name)
			return there, err == nil && there.Layout() == name.Layout()
		}, func() (model.NameUse, error) {
			made, err := o.admin.CreateName(ctx, operator(), name)
			return model.NameUse{Name: made}, err
		})
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewUseItem(found), func(w io.Writer) {
			if !made {
				fmt.Fprintf(w, "name %s is there, nothing was changed\n", found.Name.Name)
				return
			}
			fmt.Fprintf(w, "name %s has the worker IDs 0…%d, for IDs until %s", found.Name.Name, found.Workers()-1, time.UnixMilli(found.MaxMs()).UTC().Format(time.DateOnly))
			if server, err := serverURL(o.cfg.Server); err == nil {
				fmt.Fprintf(w, ": curl -X POST %s/v1/leases/%s", server, url.PathEscape(found.Name.Name))
			}
			fmt.Fprintln(w)
		})
	})
}

// holdFlag registers --hold.
func holdFlag(cmd *cobra.Command, hold *time.Duration) {
	cmd.Flags().DurationVar(hold, "hold", *hold, "how long a holder may go on without shardid, `5s…1h`")
}

// nameFlag registers --name of a name that is there.
func nameFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", "", "`name` of worker IDs")
	complete(cmd, "name", namesOfDatabase)
}

func (c *cli) namesSet() *cobra.Command {
	var name string
	var hold time.Duration
	cmd := &cobra.Command{
		Use:   "set --name NAME --hold TIME",
		Short: "Change how long the holders of a name may go on without shardid",
		Long: `Change how long the holders of a name may go on without shardid. New leases wait as long
after the database went on from a copy that may lack some. A shorter time counts for
leases that are granted or renewed from now on, a longer one a minute later.`,
		Example: "  shardid names set --name orders --hold 5m",
		Args:    cobra.NoArgs,
	}
	nameFlag(cmd, &name)
	holdFlag(cmd, &hold)
	required(cmd, "name", "hold")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		changed, err := o.admin.ChangeName(ctx, operator(), name, hold)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewUseItem(changed), func(w io.Writer) {
			namesTable(newNameObject(changed))(w)
			fmt.Fprintf(w, "name %s is changed, %s\n", changed.Name.Name, httpapi.HoldEffect(changed.Name, time.Now()))
		})
	})
}

func (c *cli) namesDelete() *cobra.Command {
	var name, confirm string
	cmd := &cobra.Command{
		Use:     "delete --name NAME --confirm NAME",
		Short:   "Delete a name of which nothing is leased; its layout and leases are remembered, should it come back",
		Example: "  shardid names delete --name orders --confirm orders",
		Args:    cobra.NoArgs,
	}
	nameFlag(cmd, &name)
	cmd.Flags().StringVar(&confirm, "confirm", "", "the `name` again")
	required(cmd, "name", "confirm")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		was, err := o.admin.DeleteName(ctx, operator(), name, confirm)
		if err != nil {
			return err
		}
		return c.print(cmd, httpapi.NewNameItem(was, 0), func(w io.Writer) {
			fmt.Fprintf(w, "name %s is deleted; should it come back, it has the same layout, and goes on above its last leases\n", was.Name)
		})
	})
}

// namesOfDatabase are the names of worker IDs.
func namesOfDatabase(ctx context.Context, cfg Config) (all []answer, err error) {
	err = reading(ctx, cfg, func(db *sqlstore.Store) error {
		names, err := db.Names(ctx)
		for _, n := range names {
			all = append(all, answer{value: n.Name.Name})
		}
		return err
	})
	return all, err
}

// allNames are those and the replicas' own.
func allNames(ctx context.Context, cfg Config) ([]answer, error) {
	names, err := namesOfDatabase(ctx, cfg)
	return slices.Insert(names, 0, answer{cfg.Snowflake.Name, "the replicas"}), err
}
