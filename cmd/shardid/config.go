package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"

	"shardid/cmd/shardid/config"
	"shardid/service/access"

	"github.com/spf13/cobra"
)

func (c *cli) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print or check the configuration",
		Example: `  shardid config print
  shardid config check --config /etc/shardid/config.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.configPrint(), c.configCheck())
	return cmd
}

// setting is the value of a key and where it comes from.
type setting struct {
	Value string `json:"value"`
	From  string `json:"from"` // "default", "config.yaml:12", "environment SHARDID_LOG_LEVEL", "flag --set log.level"
}

func (c *cli) configPrint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every key with its value and where it comes from, without secrets",
		Example: `  shardid config print
  SHARDID_LOG_LEVEL=debug shardid config print --json`,
		Args: cobra.NoArgs,
	}
	return c.loading(cmd, func(cmd *cobra.Command, _ []string, l *config.Loaded) error {
		settings := map[string]setting{}
		for _, k := range l.Keys {
			settings[k.Path] = setting{k.Value(), k.From}
		}
		return c.print(cmd, settings, func(w io.Writer) {
			fmt.Fprintln(w, "KEY\tVALUE\tFROM")
			for _, k := range l.Keys {
				fmt.Fprintf(w, "%s\t%s\t%s\n", k.Path, k.Value(), k.From)
			}
		})
	})
}

func (c *cli) configCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check",
		Short: "Check the configuration and the files that it names, and tell all problems; stores are for " +
			"shardid doctor",
		Example: `  shardid config check
  shardid config check --config /etc/shardid/config.yaml`,
		Args: cobra.NoArgs,
	}
	return c.loading(cmd, func(cmd *cobra.Command, _ []string, l *config.Loaded) error {
		cfg := l.Config
		database := addTLSFiles(&tls.Config{MinVersion: tls.VersionTLS12}, "database", cfg.Database.TLSFiles)
		redis := addTLSFiles(&tls.Config{MinVersion: tls.VersionTLS12}, "redis", cfg.Redis.TLSFiles)
		_, tokens := access.NewGuard(access.Options{File: cfg.Server.TokensFile})
		var own error
		if s := cfg.Server; s.TLSCertFile != "" {
			files := access.CertificateFiles{Cert: s.TLSCertFile, Key: s.TLSKeyFile, ClientCA: s.TLSClientCAFile}
			_, own = access.NewCertificates(files, nil)
		}
		var problems []error
		for _, problem := range []error{tokens, own, database, redis} {
			if problem != nil {
				problems = append(problems, fmt.Errorf("%s: %w", l.Blame(problem.Error()), problem))
			}
		}
		if len(problems) > 0 {
			return errors.Join(problems...)
		}
		file := cmp.Or(l.File, "no file, only defaults, environment and --set")
		return c.print(cmd, map[string]any{"ok": true, "file": l.File}, func(w io.Writer) {
			fmt.Fprintf(w, "the configuration is right: %s\n", file)
		})
	})
}
