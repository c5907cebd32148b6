package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func (c *cli) serve() *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve IDs over HTTP until SIGTERM or Ctrl-C",
		Example: `  shardid serve --demo
  shardid serve --config /etc/shardid/config.yaml
  SHARDID_REDIS_MODE=single SHARDID_REDIS_ADDRS=127.0.0.1:6379 shardid serve`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "provision app 1 (test) and the tag leaf-segment-test when the embedded database has none yet")
	c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return serve(cmd.Context(), cfg, demo)
	})
	cmd.Long = cmd.Short + `.

Every key of config.yaml that is no secret is also a flag, --server.addr for example, and
an environment variable, SHARDID_SERVER_ADDR. Flags beat variables, variables beat the
file. The keys and their defaults, which config.yaml in the sources explains:

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
	defer toggleOnSignal(level)()
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
