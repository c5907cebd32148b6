package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"

	"github.com/spf13/cobra"
)

func (c *cli) workers() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "workers [list]",
		Short: "List the worker IDs in the database",
		Long: `List the worker IDs in the database: with --name those of a name, otherwise those of snowflake.name,
which are there with snowflake.worker.mode mysql. The console and /api/replicas show the worker IDs of
running replicas in any mode.`,
		Example: `  shardid workers
  shardid workers list --name orders --json`,
		ValidArgs: []string{verbList}, Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
	}
	cmd.Flags().StringVar(&name, "name", "", "a `name` that shardid names lists (default snowflake.name)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		name = cmp.Or(name, cfg.Snowflake.Name)
		if name == cfg.Snowflake.Name && cfg.Snowflake.Worker.Mode != workerMySQL {
			return fmt.Errorf("%w: look at the console or /api/replicas for those in use: snowflake.worker.mode is "+
				"%s, whose worker IDs are not in the database", model.ErrInvalidArgument, cfg.Snowflake.Worker.Mode)
		}
		all, err := c.listWorkers(cmd.Context(), cfg, name)
		if err != nil {
			return err
		}
		return c.print(cmd, all, table(all, "no worker ID has been used yet",
			"WORKER ID\tADDRESS\tSTATE\tLAST REPORT\tIDS UP TO\tKEPT UNTIL\tREPORTED BY",
			func(w model.WorkerEntry) []any {
				return []any{w.WorkerID, w.Address, w.State, instant(w.ReportedAt), instant(w.ReservedUntil),
					instant(w.KeptUntil), map[bool]string{true: "another program", false: "-"}[w.Foreign]}
			}))
	})
}

// listWorkers asks the database, or the process that serves with the embedded one.
func (c *cli) listWorkers(ctx context.Context, cfg Config, name string) (all []model.WorkerEntry, err error) {
	err = c.onDatabase(ctx, cfg, func(socket http.RoundTripper) error {
		ask := asking{beside: socket, timeout: time.Minute}
		answer, err := ask.send(ctx, cfg, http.MethodGet, "/workers?name="+url.QueryEscape(name), nil)
		if err == nil {
			err = json.Unmarshal(answer, &all)
		}
		return err
	}, func(ctx context.Context, o opened) (err error) {
		all, err = workersOf(ctx, o.db, cfg, name)
		return err
	})
	return all, err
}

// workersOf are the worker IDs of a name.
func workersOf(ctx context.Context, db *sqlstore.Store, cfg Config, name string) (all []model.WorkerEntry, err error) {
	if name == cfg.Snowflake.Name {
		all, err = databaseWorkers(db, cfg).List(ctx)
	} else {
		all, err = leasedWorkers(ctx, db, name)
	}
	for i := range all {
		all[i].Name = name
	}
	return all, err
}

// leasedWorkers are the worker IDs of a name that were leased.
func leasedWorkers(ctx context.Context, db *sqlstore.Store, name string) ([]model.WorkerEntry, error) {
	holders, err := db.Holders(ctx, name, math.MaxInt32)
	slices.SortFunc(holders, func(a, b model.NameHolder) int { return cmp.Compare(a.WorkerID, b.WorkerID) })
	all := []model.WorkerEntry{} // none is [], not null
	for _, h := range holders {
		w := model.WorkerEntry{
			WorkerID: int(h.WorkerID), Address: h.Instance, State: model.WorkerExpired,
			ReportedAt: h.Granted, ReservedUntil: time.UnixMilli(h.Until).UTC(),
		}
		if h.Renewed.After(h.Granted) {
			w.ReportedAt = h.Renewed
		}
		if h.Leased {
			w.State, w.KeptUntil = model.WorkerLeased, w.ReservedUntil.Add(model.LeaseMargin)
		}
		all = append(all, w)
	}
	return all, err
}
