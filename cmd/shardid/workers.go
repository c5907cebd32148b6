package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"slices"
	"time"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/repository/workerfile"

	"github.com/spf13/cobra"
)

func (c *cli) workers() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "List the snowflake worker IDs of the registry that snowflake.worker.mode names, and those of names that were leased",
		Example: `  shardid workers
  shardid workers --json
  shardid workers --name orders
  shardid workers free --id 5 --confirm 10.0.0.7:8080`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.workersFree())
	cmd.Flags().StringVar(&name, "name", "", "only those of this `name`: snowflake.name, or one that names list has")
	needList := func(ctx context.Context, cfg Config) error {
		if cfg.Snowflake.Worker.Mode == workerOrdinal && (name == "" || name == cfg.Snowflake.Name) {
			return fmt.Errorf("%w: snowflake.worker.mode is %s: the worker ID is the number at the end of each host's name, and nothing lists them; --name NAME lists those of another name",
				model.ErrInvalidArgument, workerOrdinal)
		}
		return needData(ctx, cfg)
	}
	return c.withStores(cmd, needList, func(ctx context.Context, o opened) error {
		all, err := o.allWorkers(ctx, name)
		if err != nil {
			return err
		}
		return c.print(cmd, all.objects, all.text)
	})
}

// workerList are worker IDs, in JSON and as a table.
type workerList struct {
	objects []any
	text    func(io.Writer)
	leased  int64 // how many of them are in use, as far as the registry knows
}

// allWorkers lists the worker IDs of a name, "" for all names.
func (o opened) allWorkers(ctx context.Context, name string) (workerList, error) {
	if name == o.cfg.Snowflake.Name {
		return o.ownWorkers(ctx)
	}
	if name != "" {
		holders, err := o.holders(ctx, name)
		return listWorkers(holders, "no worker ID of the name "+name+" has been leased yet"), err
	}
	own, err := o.ownWorkers(ctx)
	if err != nil {
		return own, err
	}
	names, err := o.db.Names(ctx)
	if err != nil {
		return own, err
	}
	var leased []workerObject
	for _, n := range names {
		holders, err := o.holders(ctx, n.Name.Name)
		if err != nil {
			return own, err
		}
		leased = append(leased, holders...)
	}
	if len(leased) == 0 {
		return own, nil
	}
	others := listWorkers(leased, "")
	return workerList{objects: append(own.objects, others.objects...), text: func(w io.Writer) {
		own.text(w)
		fmt.Fprintln(w)
		others.text(w)
	}}, nil
}

// ownWorkers lists the registry of the replicas' worker IDs.
func (o opened) ownWorkers(ctx context.Context) (workerList, error) {
	const none = "no address has had a worker ID yet"
	if o.cfg.Snowflake.Worker.Mode != workerMySQL {
		return o.ownReports(ctx)
	}
	entries, err := o.workers.List(ctx)
	return listWorkers(shown(entries, o.newWorkerObject), none), err
}

// shown shows things, each as show does.
func shown[T, Object any](things []T, show func(T) Object) []Object {
	objects := make([]Object, len(things)) // none is [], not null
	for i, thing := range things {
		objects[i] = show(thing)
	}
	return objects
}

func listWorkers(objects []workerObject, none string) workerList {
	l := workerList{text: table(objects, none,
		"WORKER ID\tADDRESS\tSTATE\tLAST REPORT\tIDS UP TO\tKEPT UNTIL\tBY\tNAME", func(o workerObject) []any {
			return []any{o.WorkerID, o.Address, o.State, instant(o.ReportedAt), instant(o.ReservedUntil), instant(o.KeptUntil), o.by, o.Name}
		})}
	l.objects = shown(objects, func(o workerObject) any {
		if o.State == model.WorkerLeased {
			l.leased++
		}
		return o
	})
	return l
}

// holders are the worker IDs of a name that were leased, in order.
func (o opened) holders(ctx context.Context, name string) ([]workerObject, error) {
	holders, err := o.db.Holders(ctx, name, math.MaxInt32)
	slices.SortFunc(holders, func(a, b model.NameHolder) int { return cmp.Compare(a.WorkerID, b.WorkerID) })
	return shown(holders, func(h model.NameHolder) workerObject {
		w := workerObject{
			WorkerID: int(h.WorkerID), Address: h.Instance, State: model.WorkerExpired, ReportedAt: atMs(max(h.Granted, h.Renewed)),
			ReservedUntil: atMs(h.Until), Name: name, by: "a holder",
		}
		if h.Leased {
			w.State, w.KeptUntil = model.WorkerLeased, w.ReservedUntil.Add(model.LeaseMargin)
		}
		return w
	}), err
}

// ownReports lists what the instances have reported to a registry outside the database.
func (o opened) ownReports(ctx context.Context) (workerList, error) {
	peers, err := o.reports(ctx)
	slices.SortFunc(peers, func(a, b model.WorkerPeer) int { return cmp.Compare(a.WorkerID, b.WorkerID) })
	objects := shown(peers, func(p model.WorkerPeer) reportObject {
		return reportObject{p.WorkerID, p.Address, atMs(p.Reported), atMs(p.Seen), o.cfg.Snowflake.Name}
	})
	return workerList{
		objects: shown(objects, func(o reportObject) any { return o }), leased: int64(len(objects)),
		text: table(objects, "no instance has reported a worker ID",
			"WORKER ID\tADDRESS\tLAST REPORT\tBY THE REGISTRY'S CLOCK\tNAME", func(o reportObject) []any {
				return []any{o.WorkerID, o.Address, instant(o.ReportedAt), instant(o.SeenAt), o.Name}
			}),
	}, err
}

// reports gives the last reports to the registry, in no order; with mode local the
// map, in which nobody reports.
func (o opened) reports(ctx context.Context) ([]model.WorkerPeer, error) {
	s, count := o.cfg.Snowflake, registryLayout(o.cfg).Workers()
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
	zoo, err := newZooKeeper(o.cfg, slog.New(slog.DiscardHandler), nil)
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
		return c.print(cmd, o.newWorkerObject(was), func(w io.Writer) {
			fmt.Fprintf(w, "worker ID %d is free: the next new address gets it\n", was.WorkerID)
		})
	})
}

// workerObject is a worker ID in JSON; times are left out that never were.
type workerObject struct {
	WorkerID      int               `json:"workerId"`
	Address       string            `json:"address"` // what the holder of a lease calls itself
	State         model.WorkerState `json:"state"`
	Foreign       bool              `json:"foreign"`
	ReportedAt    time.Time         `json:"reportedAt,omitzero"`
	ReservedUntil time.Time         `json:"reservedUntil,omitzero"`
	KeptUntil     time.Time         `json:"keptUntil,omitzero"`
	Name          string            `json:"name"`

	by string // for people
}

func (o opened) newWorkerObject(e model.WorkerEntry) workerObject {
	return workerObject{
		WorkerID: e.WorkerID, Address: e.Address, State: e.State, Foreign: e.Foreign,
		ReportedAt: atMs(e.Reported), ReservedUntil: atMs(e.Reserved), KeptUntil: atMs(e.Expires), Name: o.cfg.Snowflake.Name,
		by: map[bool]string{true: "another program", false: "shardid"}[e.Foreign],
	}
}

// reportObject is an instance's last report in JSON; times are left out that never were.
type reportObject struct {
	WorkerID   int       `json:"workerId"`
	Address    string    `json:"address"`
	ReportedAt time.Time `json:"reportedAt,omitzero"` // by the instance's clock
	SeenAt     time.Time `json:"seenAt,omitzero"`     // by the registry's
	Name       string    `json:"name"`
}

// atMs is a time of Unix milliseconds; 0 is none.
func atMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// workerFileOptions are those of the worker file of an instance under a name.
func workerFileOptions(cfg Config, name, address string, layout model.SnowflakeLayout) workerfile.Options {
	_, port, _ := net.SplitHostPort(address) // instanceAddress and the configuration have checked it
	return workerfile.Options{
		Dir: filepath.Join(cfg.DataDir, name, port), Registry: cfg.Snowflake.Worker.Mode, Address: address, Layout: layout,
	}
}
