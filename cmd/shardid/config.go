package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func (c *cli) config() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config check",
		Short: "Check the configuration and the files that it names, and report every problem; " +
			"shardid doctor checks the stores",
		Example: `  shardid config check
  shardid config check --config /etc/shardid/config.yaml`,
		ValidArgs: []string{"check"}, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		_, _, own := openAccess(cfg.Server, nil, nil)
		database := addTLSFiles(&tls.Config{MinVersion: tls.VersionTLS12}, "database", cfg.Database.TLSFiles)
		redis := addTLSFiles(&tls.Config{MinVersion: tls.VersionTLS12}, "redis", cfg.Redis.TLSFiles)
		if err := errors.Join(own, database, redis); err != nil {
			return err
		}
		file := cmp.Or(c.file, "no file, only defaults, environment and --set")
		return c.print(cmd, map[string]any{"ok": true, "file": c.file}, func(w io.Writer) {
			fmt.Fprintf(w, "the configuration is right: %s\n", file)
		})
	})
}
