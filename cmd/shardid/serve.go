package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"text/tabwriter"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/repository/sqlstore"
	"shardid/service/admin"

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
	cmd.Flags().BoolVar(&demo, "demo", false, "provision app 1 (test), the tags leaf-segment-test and orders, the name demo and the space chat when the embedded database has none yet")
	c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return serve(cmd.Context(), cfg, demo)
	})
	cmd.Long = cmd.Short + `.

Every key of config.yaml is also an environment variable, SHARDID_SERVER_ADDR for example,
and every key that is no secret can be set by --set server.addr=:8080, once for each key.
--set beats variables, variables beat the file. Lists have commas there, and maps are
key=value with commas. The keys and their defaults, which config.yaml in the sources
explains:

` + keysHelp()
	return cmd
}

// serve runs the service until a signal or a failure of the listener. SIGTERM
// drains with the configured delay, Ctrl-C without; a second signal kills.
func serve(ctx context.Context, cfg Config, demo bool) error {
	log, level, err := newLogger(os.Stderr, cfg.Log)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)

	widenGC()
	app, err := NewApp(cfg, log, level)
	if err != nil {
		return err
	}
	if err := app.Start(ctx, demo); err != nil {
		return errors.Join(err, app.Stop(0))
	}
	notify(ctx, log, notifyReady)
	delay := cfg.Server.DrainDelay
	select {
	case s := <-signals:
		signal.Stop(signals) // from here on a signal kills
		log.Info("stopping", "signal", s.String())
		if s == os.Interrupt {
			delay = 0
		}
	case err = <-app.Failed():
		delay = 0
	case <-ctx.Done():
		delay = 0
	}
	notify(ctx, log, notifyStopping)
	err = errors.Join(err, app.Stop(delay))
	if err == nil {
		log.Info("stopped")
	}
	return err
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

// provisionDemo makes the first curls work: it adds app 1, the tags of Leaf's own example and of the README, a
// name of worker IDs and a space of sequences to an embedded database that has no app, no tag,
// no name, no space.
func provisionDemo(ctx context.Context, cfg Config, db *sqlstore.Store, log *slog.Logger) error {
	if cfg.Database.Driver != sqlstore.SQLite {
		return fmt.Errorf("%w: --demo is for the embedded database: use shardid provision", model.ErrInvalidArgument)
	}
	tags, err := db.Tags(ctx)
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		var demo []model.Tag
		for _, name := range []string{"leaf-segment-test", "orders"} {
			demo = append(demo, model.Tag{Name: name, MaxID: 1, Step: admin.DefaultTagStep, Description: "demo tag of shardid serve --demo"})
		}
		log.Info("adding the demo tags", "tags", len(demo))
		if _, err := db.CreateTags(ctx, demo); err != nil {
			return err
		}
	}
	if err := cmp.Or(provisionDemoName(ctx, cfg, db, log), provisionDemoSpace(ctx, db, log)); err != nil {
		return err
	}
	apps, err := db.Apps(ctx)
	if err != nil || len(apps) > 0 {
		return err
	}
	log.Info("provisioning the demo app", "app", 1, "name", "test")
	_, err = db.CreateApp(ctx, model.App{
		ID: 1, Name: "test", Description: "demo app of shardid serve --demo",
		Step: admin.DefaultStep, Limit: model.Limit{Policy: model.LimitReject},
	})
	return err
}

// provisionDemoName adds the name demo, unless it is the replicas' own, or was deleted and had
// another layout.
func provisionDemoName(ctx context.Context, cfg Config, db *sqlstore.Store, log *slog.Logger) error {
	demo := model.Name{
		Name: "demo", EpochMs: admin.DefaultEpochMs, WorkerBits: admin.DefaultWorkerBits, SeqBits: admin.DefaultSeqBits, Hold: model.DefaultHold,
	}
	names, err := db.Names(ctx)
	if err != nil || len(names) > 0 || cfg.Snowflake.Name == demo.Name {
		return err
	}
	switch _, err := db.CreateName(ctx, demo); {
	case errors.Is(err, model.ErrRefused):
		return nil
	case err != nil:
		return err
	}
	log.Info("added the demo name of worker IDs", "name", demo.Name)
	return nil
}

// provisionDemoSpace adds the space chat, unless it was deleted a moment ago.
func provisionDemoSpace(ctx context.Context, db *sqlstore.Store, log *slog.Logger) error {
	demo := model.Space{Name: "chat", Sections: model.DefaultSections, Step: model.DefaultSequenceStep}
	spaces, err := db.Spaces(ctx)
	if err != nil || len(spaces) > 0 {
		return err
	}
	switch _, err := db.CreateSpace(ctx, demo); {
	case errors.Is(err, model.ErrRefused):
		return nil
	case err != nil:
		return err
	}
	log.Info("added the demo space of sequences", "space", demo.Name)
	return nil
}

// What the service manager is told, as sd_notify(3) has it.
const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
)

// notify tells systemd, for a unit of Type=notify, how far the process is. Without
// systemd it does nothing. A failure to tell it stops nothing: systemd then
// ends the start by its own timeout, and the log says why.
func notify(ctx context.Context, log *slog.Logger, state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if err := send(ctx, socket, state); err != nil {
		log.Warn("systemd could not be told", "state", state, "error", err)
	}
}

// send writes one datagram; a leading "@" is an abstract socket, for Go as for
// systemd.
func send(ctx context.Context, socket, state string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixgram", socket)
	if err != nil {
		return fmt.Errorf("connect to NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("write to NOTIFY_SOCKET: %w", err)
	}
	return nil
}

// heapRoom is how far the heap grows, at least, between two garbage collections,
// in bytes. Go's default lets it double, which for the few MiB that shardid holds
// means a collection for every few thousand requests. At maxGCPercent the room is
// less, so that a small process stays small.
const (
	heapRoom     = 12 << 20
	maxGCPercent = 400
)

// widenGC spaces out the garbage collections of a small heap, unless the operator
// says how they are to be spaced. GOMEMLIMIT holds beside it.
func widenGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	followHeap(&pacer{percent: 100})
}

// pacer knows the present GC percentage.
type pacer struct{ percent int }

// followHeap adjusts the percentage to what the last collection left, now and
// after each collection: the cleanup of an object that nothing holds is then due.
func followHeap(p *pacer) {
	p.adjust(liveHeap())
	runtime.AddCleanup(new([16]byte), followHeap, p)
}

// adjust sets a percentage that differs enough; setting one stops the world.
func (p *pacer) adjust(live uint64) {
	want := gcPercent(live)
	if d := want - p.percent; d > -20 && d < 20 {
		return
	}
	p.percent = want
	debug.SetGCPercent(want)
}

// gcPercent gives a heap with that many live bytes its room.
func gcPercent(live uint64) int {
	return int(min(max(100, heapRoom*100/max(live, 1)), maxGCPercent))
}

func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
