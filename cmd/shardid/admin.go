package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"

	"shardid/repository/sqlstore"
	"shardid/service/admin"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// followNote says when a change made by a command counts.
const followNote = "running replicas follow with their next reload: within queue.reload_cron (2 minutes by default) for an app, within a minute for a tag"

// admin is the administration over HTTP. It has this replica's modes take changes over,
// and its lines are in the log whatever its level is.
func (a *App) admin() *admin.Service {
	opts := admin.Options{Store: a.db, Log: a.log, Queue: a.queue}
	if a.level != nil {
		opts.Log = a.level.audit
	}
	if a.segment != nil {
		opts.Segment = a.segment
	}
	return admin.New(opts)
}

// changeData opens the database for a command that changes what is there.
func (c *cli) changeData(cmd *cobra.Command, cfg Config, f func(context.Context, *admin.Service) error) error {
	if err := needData(cmd.Context(), cfg); err != nil {
		return err
	}
	return c.runAdmin(cmd, cfg, f)
}

// runAdmin opens the database for a command that administrates. Its audit line goes to
// stderr, in the form and from the level on that the configuration says.
func (c *cli) runAdmin(cmd *cobra.Command, cfg Config, f func(context.Context, *admin.Service) error) error {
	return withDatabase(cmd.Context(), cfg, func(ctx context.Context, db *sqlstore.Store) error {
		service, err := adminOn(cfg, db)
		if err != nil {
			return err
		}
		return f(ctx, service)
	})
}

func adminOn(cfg Config, db *sqlstore.Store) (*admin.Service, error) {
	log, _, err := newLogger(os.Stderr, cfg.Log)
	if err != nil {
		return nil, err
	}
	return admin.New(admin.Options{Store: db, Log: log, Workers: workersOf(cfg, db)}), nil
}

func workersOf(cfg Config, db *sqlstore.Store) *sqlstore.Workers {
	return db.Workers(sqlstore.WorkersOptions{ReclaimMargin: cfg.Snowflake.MaxClockOffset})
}

// operator is whoever runs the command, by the name that the system has for him.
func operator() admin.Actor {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return admin.Actor{Name: "cli:" + cmp.Or(name, os.Getenv("USER"), strconv.Itoa(os.Getuid()))}
}

// given is the flag's value, nil when it was not given.
func given[T any](f *pflag.FlagSet, name string, value *T) *T {
	if !f.Changed(name) {
		return nil
	}
	return value
}

// required marks flags that were just registered.
func required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is registered a few lines above
		}
	}
}

// tell prints what was done and from when on it counts.
func tell(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format+"\n%s\n", append(args, followNote)...)
}
