package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"

	"github.com/spf13/cobra"
)

func (c *cli) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the database schema; several starters at once are safe",
		Example: `  shardid migrate
  SHARDID_DATABASE_DRIVER=mysql SHARDID_DATABASE_DSN='user:secret@tcp(127.0.0.1:3306)/shardid' shardid migrate`,
		Args: cobra.NoArgs,
	}
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) (err error) {
		db, err := openDatabase(cmd.Context(), cfg, nil, nil)
		if err != nil {
			return err
		}
		defer func() {
			if closeErr := db.Close(); err == nil {
				err = closeErr
			}
		}()
		steps := []string{}
		tell := func(line string) {
			if steps = append(steps, line); !c.json {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
		}
		if err := db.Migrate(cmd.Context(), tell); err != nil {
			return err
		}
		limits, err := askLimits(cmd.Context(), db)
		for _, f := range limits {
			tell(fmt.Sprintf("%s: %s: %s", f.Setting, f.Value, f.Why))
		}
		if err != nil || !c.json {
			return err
		}
		return c.print(cmd, map[string][]string{"steps": steps}, nil)
	})
}

// confirmation is what an operator says when the stores cannot know it any more.
type confirmation struct {
	app                   uint8
	name, tag, deployment string
	uid, registry         bool
}

// on gives what is confirmed, for people, and what does that.
func (c confirmation) on(db *sqlstore.Store) (target string, run func(context.Context) (waited int64, err error)) {
	switch {
	case c.tag != "":
		return "tag " + c.tag, func(ctx context.Context) (int64, error) { return db.ConfirmTag(ctx, c.tag) }
	case c.uid:
		return "starts of the UID mode", db.ConfirmNodes
	case c.registry:
		return "registry of worker IDs", db.ForgetWorkerClaims
	case c.deployment != "":
		return "deployment " + c.deployment, func(ctx context.Context) (int64, error) { return db.Adopt(ctx, c.deployment) }
	}
	return fmt.Sprintf("app %d", c.app), func(ctx context.Context) (int64, error) {
		return db.ConfirmApp(ctx, c.app, c.name)
	}
}

// confirm changes nothing where nothing waits for it.
func (c *cli) confirm() *cobra.Command {
	var what confirmation
	cmd := &cobra.Command{
		Use:   "confirm (--app ID --name NAME | --tag TAG | --uid | --registry | --deployment ID)",
		Short: "Say that a database which went back in time is right now",
		Long: `After a database was restored, or failed over to a copy that lags, shardid leaves
out whatever the copy may lack. Where that would burn much of a small ID space it
waits for an operator instead, and its error names the command. Before you run it,
raise max_id above the highest ID in use: apps set --min-index, tags set --max-id.`,
		Example: `  shardid apps set --app 7 --min-index 120000   # above the highest index in use
  shardid confirm --app 7 --name orders
  shardid confirm --tag orders
  shardid confirm --uid                          # WORKER_NODE has every instance that runs
  shardid confirm --registry                     # no instance of the old registry of worker IDs runs
  shardid confirm --deployment 3f0c2b9e          # this database takes that one's place`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	appFlag(cmd, &what.app)
	f.StringVar(&what.name, "name", "", "the app's `name`")
	f.StringVar(&what.tag, "tag", "", "segment `tag`")
	f.BoolVar(&what.uid, "uid", false, "the starts of the UID mode")
	f.BoolVar(&what.registry, "registry", false, "another registry of worker IDs, or snowflake.name")
	f.StringVar(&what.deployment, "deployment", "", "`ID` of the deployment whose database is gone")
	cmd.MarkFlagsRequiredTogether("app", "name")
	cmd.MarkFlagsOneRequired("app", "tag", "uid", "registry", "deployment")
	cmd.MarkFlagsMutuallyExclusive("app", "tag", "uid", "registry", "deployment")
	return c.withStores(cmd, needData, func(ctx context.Context, o opened) error {
		target, run := what.on(o.db)
		waited, err := o.admin.Confirm(ctx, operator(), target, run)
		if err != nil {
			return err
		}
		result := "confirmed; running replicas go on within seconds"
		if waited == 0 {
			result = "nothing waited for a confirmation, nothing was changed"
		}
		return c.print(cmd, map[string]any{"target": target, "confirmed": waited > 0}, func(w io.Writer) {
			fmt.Fprintf(w, "%s: %s\n", target, result)
		})
	})
}

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
	return c.withStores(cmd, needRegistry, func(ctx context.Context, o opened) error {
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

// instant is a time for people.
func instant(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
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
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	return workerObject{
		WorkerID: e.WorkerID, Address: e.Address, State: e.State, Foreign: e.Foreign,
		ReportedAt: at(e.Reported), ReservedUntil: at(e.Reserved), KeptUntil: at(e.Expires),
	}
}
