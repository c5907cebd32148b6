package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"
	"shardid/service/issuer"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
)

func (c *cli) serve() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve IDs over HTTP until SIGTERM or Ctrl-C",
		Example: `  shardid serve --demo
  shardid serve --config /etc/shardid/config.yaml
  shardid serve --set server.addr=:8080 --set log.level=debug
  SHARDID_REDIS_URL=redis://127.0.0.1:6379 shardid serve`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "provision app 1 (test), the tags leaf-segment-test and orders, "+
		"the name demo and the space chat when the embedded database has no app yet")
	c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return serve(cmd.Context(), cfg, demo)
	})
	cmd.Long += `

--set overrides variables, and variables override the file. Separate list items and
key=value pairs with commas. These are the keys with their defaults:

` + keysHelp()
	return cmd
}

// serve runs the service until a signal or a failure of the listener. SIGTERM
// drains with the configured delay, Ctrl-C without; a second signal kills. One before the service runs ends the start.
func serve(ctx context.Context, cfg Config, demo bool) error {
	log, level := newLogger(os.Stderr, cfg.Log)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)

	if os.Getenv("GOGC") == "" {
		keepHeapGoal()
	}
	starting, started := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer started()
	app, err := NewApp(cfg, log, level)
	if err != nil {
		return err
	}
	err = app.Start(starting, demo)
	ended := starting.Err() != nil
	if started(); ended {
		log.Info("stopped during the start", "error", err)
		err = nil
	}
	if ended || err != nil {
		signal.Stop(signals)
		return errors.Join(err, app.Stop(0))
	}
	notify(log, daemon.SdNotifyReady)
	delay := cfg.Server.DrainDelay
	select {
	case s := <-signals:
		log.Info("stopping", "signal", s.String())
		if s == os.Interrupt {
			delay = 0
		}
	case err = <-app.failed:
		delay = 0
	case <-ctx.Done():
		delay = 0
	}
	signal.Stop(signals) // from here on a signal kills
	notify(log, daemon.SdNotifyStopping)
	err = errors.Join(err, app.Stop(delay))
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// keepHeapGoal lets the heap grow to 32 MiB, or to two and a half times what lives, before it is collected. Go lets it
// double, which for the 3 MiB that live in most replicas means five collections a second at 12,000 requests a second,
// each of 5 ms: the p99 of a request. GOMEMLIMIT holds beside this.
func keepHeapGoal() {
	const goal, smallest, least = 32 << 20, 4 << 20, 150 // Go takes no heap for smaller than 4 MiB
	type collected struct{ _ *byte }
	live, set := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, 0
	var adjust func(*collected)
	adjust = func(c *collected) {
		metrics.Read(live)
		percent := max(least, int(goal*100/max(live[0].Value.Uint64(), smallest))-100)
		if percent < set-set/8 || percent > set+set/8 { // as it stops the world
			set = percent
			debug.SetGCPercent(set)
		}
		runtime.SetFinalizer(c, adjust) // which runs after the next collection
	}
	adjust(&collected{})
}

// keysHelp lists the keys of the configuration with their defaults.
func keysHelp() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range config.Defaults().Keys {
		note := cmp.Or(k.Default, `""`)
		if k.Secret {
			note = "secret: in the file, or " + k.Env()
		}
		fmt.Fprintf(w, "  %s\t%s\n", k.Path, note)
	}
	_ = w.Flush() // a Builder takes everything
	return b.String()
}

// provisionDemo makes the first curls work: to an embedded database without apps it adds app 1, the tags of Leaf's own
// example and of the README, a name of worker IDs and a space of sequences.
func provisionDemo(ctx context.Context, cfg Config, db *sqlstore.Store, log *slog.Logger) error {
	if cfg.Database.Driver != sqlstore.SQLite {
		return fmt.Errorf("%w: leave --demo out, and use shardid provision: it is for the embedded database",
			model.ErrInvalidArgument)
	}
	apps, err := db.Apps(ctx)
	if err != nil || len(apps) > 0 {
		return err
	}
	const text = " of shardid serve --demo"
	demo := map[string][]admin.Given{
		"app": {{"id": int64(1), "name": "test", "description": "demo app" + text}},
		"tag": {
			{"tag": "leaf-segment-test", "description": "demo tag" + text},
			{"tag": "orders", "description": "demo tag" + text},
		},
		"name":  {{"name": "demo"}},
		"space": {{"space": "chat"}},
	}
	// The app is the last, as it says that all the others are there.
	quiet := slog.New(slog.DiscardHandler) // nobody asked for these, so that no audit lines need to tell of them
	for _, resource := range slices.Backward(admin.New(adminOptions(cfg, db, quiet)).Resources()) {
		for _, given := range demo[resource.One] {
			_, _, err := resource.Add(ctx, admin.Actor{Name: "demo"}, given)
			// What is there stays; refused is the replicas' own name, and what was deleted a moment ago.
			if err != nil && issuer.Code(err) != issuer.CodeRefused {
				return err
			}
		}
	}
	log.Info("the demo has an app, tags, a name and a space")
	return nil
}

// notify tells systemd, for a unit of Type=notify, how far the process is. A failure to tell it stops nothing: systemd
// then ends the start by its own timeout, and the log says why.
func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("look at NOTIFY_SOCKET: systemd could not be told", "state", state, "error", err)
	}
}
