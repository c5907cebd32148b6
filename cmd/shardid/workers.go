package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"

	"github.com/spf13/cobra"
)

func (c *cli) workers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the snowflake worker IDs of the database's registry (snowflake.worker.mode: mysql)",
		Example: `  shardid workers
  shardid workers --json
  shardid workers free --id 5 --confirm 10.0.0.7:8080`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.workersFree())
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if err := checkRegistry(cfg); err != nil {
			return err
		}
		return withData(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
			entries, err := workersOf(cfg, db).List(ctx)
			if err != nil {
				return err
			}
			return c.print(cmd, workerObjects(entries), workersTable(entries))
		})
	})
}

// checkRegistry refuses a configuration whose worker IDs are not in the database.
func checkRegistry(cfg Config) error {
	if mode := cfg.Snowflake.Worker.Mode; mode != workerMySQL {
		return fmt.Errorf("%w: snowflake.worker.mode is %s, whose worker IDs are not in the database: this command is for mode %s", model.ErrInvalidArgument, mode, workerMySQL)
	}
	return nil
}

func (c *cli) workersFree() *cobra.Command {
	var id int
	var address string
	cmd := &cobra.Command{
		Use:   "free --id N --confirm IP:PORT",
		Short: "Take a worker ID from an address that is gone for good, once its bounds have passed",
		Example: `  shardid workers                                   # expired ones can be freed
  shardid workers free --id 5 --confirm 10.0.0.7:8080`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&id, "id", -1, "worker `ID`, 0…1023")
	cmd.Flags().StringVar(&address, "confirm", "", "`address` that has it")
	required(cmd, "id", "confirm")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if err := checkRegistry(cfg); err != nil {
			return err
		}
		return c.changeData(cmd, cfg, func(ctx context.Context, service *admin.Service) error {
			was, err := service.FreeWorker(ctx, operator(), id, address)
			if err != nil {
				return err
			}
			return c.print(cmd, workerObjects([]model.WorkerEntry{was})[0], func(w io.Writer) {
				fmt.Fprintf(w, "worker ID %d is free: the next new address gets it\n", was.WorkerID)
			})
		})
	})
}

func workersTable(entries []model.WorkerEntry) func(io.Writer) {
	return func(w io.Writer) {
		if len(entries) == 0 {
			fmt.Fprintln(w, "no address has had a worker ID yet")
			return
		}
		fmt.Fprintln(w, "WORKER ID\tADDRESS\tSTATE\tLAST REPORT\tIDS UP TO\tKEPT UNTIL\tBY")
		for _, e := range entries {
			program := "shardid"
			if e.Foreign {
				program = "another program"
			}
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.WorkerID, e.Address, e.State, instant(e.Reported), instant(e.Reserved), instant(e.Expires), program)
		}
	}
}

// instant is a time in Unix ms for people.
func instant(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// workerObject is a worker ID in JSON; times are left out that never were.
type workerObject struct {
	WorkerID      int               `json:"workerId"`
	Address       string            `json:"address"`
	State         model.WorkerState `json:"state"`
	Foreign       bool              `json:"foreign"`
	ReportedAt    time.Time         `json:"reportedAt,omitzero"`
	ReservedUntil time.Time         `json:"reservedUntil,omitzero"`
	KeptUntil     time.Time         `json:"keptUntil,omitzero"`
}

func workerObjects(entries []model.WorkerEntry) []workerObject {
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	out := make([]workerObject, len(entries))
	for i, e := range entries {
		out[i] = workerObject{
			WorkerID: e.WorkerID, Address: e.Address, State: e.State, Foreign: e.Foreign,
			ReportedAt: at(e.Reported), ReservedUntil: at(e.Reserved), KeptUntil: at(e.Expires),
		}
	}
	return out
}
