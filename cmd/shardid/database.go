package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"

	"github.com/spf13/cobra"
)

func (c *cli) migrate() *cobra.Command {
	var print bool
	var from string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the database schema; running it several times at once is safe",
		Long: `Create or upgrade the database schema; running it several times at once is safe.

With --from, an embedded deployment moves to MySQL or MariaDB: its apps, tags, names, spaces and layouts, and
how far each counter, lease and worker ID has come, so that nothing repeats. The database must be empty of
these. Stop the embedded server first; it does not start any more afterwards.`,
		Example: `  shardid migrate
  shardid migrate --print
  shardid migrate --config mysql.yaml --from data    # the data_dir of a first run
  SHARDID_DATABASE_DRIVER=mysql SHARDID_DATABASE_DSN='user:secret@tcp(127.0.0.1:3306)/shardid' shardid migrate`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the statements that would run, and change nothing")
	cmd.Flags().StringVar(&from, "from", "", "data `FOLDER` of an embedded deployment that moves to this database")
	cmd.MarkFlagsMutuallyExclusive("print", "from")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) (err error) {
		if from != "" && cfg.Database.Driver != sqlstore.MySQL {
			return fmt.Errorf("%w: set database.driver to mysql, and database.dsn: --from is for the move to a server",
				model.ErrInvalidArgument)
		}
		db, err := openDatabase(cmd.Context(), cfg, !print, nil, nil, nil)
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, db.Close()) }()
		if print {
			plan, err := db.MigrationPlan(cmd.Context())
			if err != nil {
				return err
			}
			return c.print(cmd, map[string]string{"statements": plan}, func(w io.Writer) {
				fmt.Fprint(w, cmp.Or(plan, "-- nothing to do\n"))
			})
		}
		steps := []string{}
		tell := func(line string) {
			if steps = append(steps, line); !c.json {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
		}
		if err := db.Migrate(cmd.Context(), tell); err != nil {
			return err
		}
		if from != "" {
			if err := moveEmbedded(cmd.Context(), cfg, db, from, tell); err != nil {
				return err
			}
		}
		apps, err := db.Apps(cmd.Context())
		for _, a := range apps { // a table of the article may have limits, past which its service repeated IDs
			if a.Limit.MaxID > 0 && a.Limit.Policy == model.LimitReject {
				tell(fmt.Sprintf("limit of app %d (%s): max_limit_id %d, policy reject: an ID above the limit is "+
					"refused with code -5; %s", a.ID, a.Name, a.Limit.MaxID, model.WrapAdvice(a.ID, a.Name)))
			}
		}
		if err != nil || !c.json {
			return err
		}
		return c.print(cmd, map[string][]string{"steps": steps}, nil)
	})
}

// moveEmbedded takes the embedded database of a data folder over into db, which has just been migrated, and tells what
// it did.
func moveEmbedded(ctx context.Context, cfg Config, db *sqlstore.Store, from string, tell func(string)) (err error) {
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		from = filepath.Join(from, "shardid.db")
	}
	embedded, err := sqlstore.Open(ctx, sqlstore.Options{
		Driver: sqlstore.SQLite, DSN: from, Existing: true, Region: region(cfg),
	})
	switch {
	case errors.Is(err, sqlstore.ErrNoDatabase):
		return fmt.Errorf("%w: name the data_dir of the embedded deployment, or the file: --from %s is no database of "+
			"shardid", model.ErrInvalidArgument, from)
	case errors.Is(err, sqlstore.ErrHeld):
		return fmt.Errorf("%w: %w", model.Do("stop the shardid that serves with %s", from), err)
	case err != nil:
		return err
	}
	defer func() { err = cmp.Or(err, embedded.Close()) }()
	if err := embedded.Migrate(ctx, nil); err != nil {
		return err
	}
	moved, err := db.MoveFrom(ctx, embedded)
	if errors.Is(err, sqlstore.ErrMoved) {
		tell("nothing was taken over now: " + model.Message(err))
	} else if err != nil {
		return err
	}
	for _, m := range moved {
		tell(fmt.Sprintf("%s: %d rows taken over", m.Table, m.Rows))
	}
	tell(from + " no longer issues IDs: start the replicas with the configuration of this command")
	return nil
}

// confirm changes nothing where nothing waits for it.
func (c *cli) confirm() *cobra.Command {
	var app uint8
	var name, tag, space string
	var uid, registry bool
	cmd := &cobra.Command{
		Use:   "confirm (--app ID --name NAME | --tag TAG | --space SPACE | --uid | --registry)",
		Short: "Accept the database as it is, after a restore or a failover to a stale replica",
		Long: `After a database was restored, or failed over to a stale replica, shardid skips all
numbers that it may lack. Where that would use up much of a small range, shardid waits
for an operator instead, and its error names the command. Before you run the command,
raise max_id above the highest ID in use: apps set --min-index, tags set --max-id.`,
		Example: `  shardid apps set --app 7 --min-index 120000   # above the highest index in use
  shardid confirm --app 7 --name orders
  shardid confirm --tag orders
  shardid confirm --space chat
  shardid confirm --uid                          # WORKER_NODE lists every running instance
  shardid confirm --registry                     # no instance of the old registry still runs`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.Uint8Var(&app, "app", 0, "app `ID`, 0…255")
	f.StringVar(&name, "name", "", "the app's `name`")
	f.StringVar(&tag, "tag", "", "segment `tag`")
	f.StringVar(&space, "space", "", "`space` of sequences")
	f.BoolVar(&uid, "uid", false, "the starts of the UID mode")
	f.BoolVar(&registry, "registry", false, "a new registry of worker IDs, or a new snowflake.name")
	cmd.MarkFlagsRequiredTogether("app", "name")
	cmd.MarkFlagsMutuallyExclusive("app", "tag", "space", "uid", "registry")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if name == "" && tag == "" && space == "" && !uid && !registry {
			return fmt.Errorf("%w: give --app and --name, --tag, --space, --uid or --registry, see %s --help: "+
				"nothing says what is confirmed", model.ErrInvalidArgument, cmd.CommandPath())
		}
		return c.onStores(cmd.Context(), cfg, func(ctx context.Context, o opened) error {
			target, waited := fmt.Sprintf("app %d", app), int64(0)
			run := func(ctx context.Context) (int64, error) { return o.db.ConfirmApp(ctx, app, name) }
			switch {
			case tag != "":
				target = "tag " + tag
				run = func(ctx context.Context) (int64, error) { return o.db.ConfirmTag(ctx, tag) }
			case space != "":
				target = "space " + space
				run = func(ctx context.Context) (int64, error) { return o.db.ConfirmSpace(ctx, space) }
			case uid:
				target, run = "starts of the UID mode", o.db.ConfirmNodes
			case registry:
				target, run = "registry of worker IDs", o.db.ForgetWorkerClaims
			}
			confirm := func(ctx context.Context) (_ admin.Done, err error) {
				waited, err = run(ctx)
				return admin.Done{After: map[string]any{"confirmed": waited}}, err
			}
			if _, err := o.admin.Do(ctx, operator(), "confirm", target, nil, confirm); err != nil {
				return err
			}
			result := "confirmed; running replicas resume within seconds"
			if waited == 0 {
				result = "nothing waited for a confirmation, nothing was changed"
			}
			return c.print(cmd, map[string]any{"target": target, "confirmed": waited > 0}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s (%s)\n", target, result, o.db.Place())
			})
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
