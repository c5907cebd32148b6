package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"

	"github.com/spf13/cobra"
)

func (c *cli) workers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the snowflake worker IDs of the registry that snowflake.worker.mode names",
		Example: `  shardid workers
  shardid workers --json
  shardid workers import /tmp/leaf/leafconf/8080/workerID.json
  shardid workers free --id 5 --confirm 10.0.0.7:8080`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.workersFree(), c.workersImport())
	return c.withStores(cmd, needList, func(ctx context.Context, o opened) error {
		if o.cfg.Snowflake.Worker.Mode != workerMySQL {
			return c.printReports(ctx, cmd, o)
		}
		entries, err := o.workers.List(ctx)
		if err != nil {
			return err
		}
		objects := make([]workerObject, len(entries))
		for i, e := range entries {
			objects[i] = newWorkerObject(e)
		}
		return c.print(cmd, objects, table(objects, "no address has had a worker ID yet",
			"WORKER ID\tADDRESS\tSTATE\tLAST REPORT\tIDS UP TO\tKEPT UNTIL\tBY", func(o workerObject) []any {
				by := map[bool]string{true: "another program", false: "shardid"}[o.Foreign]
				return []any{o.WorkerID, o.Address, o.State, instant(o.ReportedAt), instant(o.ReservedUntil),
					instant(o.KeptUntil), by}
			}))
	})
}

// needList is needData for a command that lists worker IDs.
func needList(ctx context.Context, cfg Config) error {
	if cfg.Snowflake.Worker.Mode == workerOrdinal {
		return fmt.Errorf("%w: snowflake.worker.mode is %s: the worker ID is the number at the end of each host's name, and nothing lists them",
			model.ErrInvalidArgument, workerOrdinal)
	}
	return needData(ctx, cfg)
}

// printReports prints what the instances have reported to a registry outside the
// database.
func (c *cli) printReports(ctx context.Context, cmd *cobra.Command, o opened) error {
	peers, err := o.reports(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(peers, func(a, b model.WorkerPeer) int { return cmp.Compare(a.WorkerID, b.WorkerID) })
	objects := make([]reportObject, len(peers))
	for i, p := range peers {
		objects[i] = reportObject{p.WorkerID, p.Address, atMs(p.Reported), atMs(p.Seen)}
	}
	return c.print(cmd, objects, table(objects, "no instance has reported a worker ID",
		"WORKER ID\tADDRESS\tLAST REPORT\tBY THE REGISTRY'S CLOCK", func(o reportObject) []any {
			return []any{o.WorkerID, o.Address, instant(o.ReportedAt), instant(o.SeenAt)}
		}))
}

// reports gives the last reports to the registry, in no order; with mode local the
// map, in which nobody reports.
func (o opened) reports(ctx context.Context) ([]model.WorkerPeer, error) {
	s, count := o.cfg.Snowflake, snowflakeLayout(o.cfg).Workers()
	switch s.Worker.Mode {
	case workerLocal:
		var peers []model.WorkerPeer
		for address, id := range s.Worker.LocalMap {
			peers = append(peers, model.WorkerPeer{Address: address, WorkerID: id})
		}
		return peers, nil
	case workerRedis:
		return o.redis.Workers(redisstore.WorkersOptions{Name: s.Name, TTL: s.Worker.Lease, Workers: count}).Peers(ctx)
	}
	zoo, err := newZooKeeper(o.cfg, s.Name, count, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer zoo.Close()
	return zoo.Peers(ctx)
}

// needRegistry is needData for a command on worker IDs, which must be in the database.
func needRegistry(ctx context.Context, cfg Config) error {
	if mode := cfg.Snowflake.Worker.Mode; mode != workerMySQL {
		return fmt.Errorf("%w: snowflake.worker.mode is %s, whose worker IDs are not in the database: this command is for mode %s",
			model.ErrInvalidArgument, mode, workerMySQL)
	}
	return needData(ctx, cfg)
}

func (c *cli) workersFree() *cobra.Command {
	var id int
	var address string
	cmd := &cobra.Command{
		Use:   "free --id N --confirm IP:PORT",
		Short: "Take a worker ID from an address that will not come back, once its bounds have passed",
		Example: `  shardid workers                                   # expired ones can be freed
  shardid workers free --id 5 --confirm 10.0.0.7:8080`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&id, "id", -1, "worker `ID`, 0…1023")
	cmd.Flags().StringVar(&address, "confirm", "", "`address` that has it")
	required(cmd, "id", "confirm")
	return c.withStores(cmd, needRegistry, func(ctx context.Context, o opened) error {
		was, err := o.admin.FreeWorker(ctx, operator(), id, address)
		if err != nil {
			return err
		}
		return c.print(cmd, newWorkerObject(was), func(w io.Writer) {
			fmt.Fprintf(w, "worker ID %d is free: the next new address gets it\n", was.WorkerID)
		})
	})
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

func newWorkerObject(e model.WorkerEntry) workerObject {
	return workerObject{
		WorkerID: e.WorkerID, Address: e.Address, State: e.State, Foreign: e.Foreign,
		ReportedAt: atMs(e.Reported), ReservedUntil: atMs(e.Reserved), KeptUntil: atMs(e.Expires),
	}
}

// reportObject is an instance's last report in JSON; times are left out that never were.
type reportObject struct {
	WorkerID   int       `json:"workerId"`
	Address    string    `json:"address"`
	ReportedAt time.Time `json:"reportedAt,omitzero"` // by the instance's clock
	SeenAt     time.Time `json:"seenAt,omitzero"`     // by the registry's
}

// atMs is a time of Unix milliseconds; 0 is none.
func atMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
