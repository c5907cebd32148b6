package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/cmd/shardid/javaconf"
	"shardid/model"
	"shardid/service/access"

	"github.com/spf13/cobra"
)

func (c *cli) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print or check the configuration, or make one of that of a Java service",
		Example: `  shardid config print
  shardid config import leaf.properties
  shardid config check --config /etc/shardid/config.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.configPrint(), c.configCheck(), c.configImport())
	return cmd
}

// setting is the value of a key and where it comes from.
type setting struct {
	Value string `json:"value"`
	From  string `json:"from"` // "default", "config.yaml:12", "environment SHARDID_LOG_LEVEL", "flag --log.level"
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
		Use:   "check",
		Short: "Check the configuration and the files that it names, and tell all problems; stores are for shardid doctor",
		Example: `  shardid config check
  shardid config check --config /etc/shardid/config.yaml`,
		Args: cobra.NoArgs,
	}
	return c.loading(cmd, func(cmd *cobra.Command, _ []string, l *config.Loaded) error {
		cfg := l.Config
		_, database := storeTLS("database", cfg.Database.ClientTLS)
		_, redis := storeTLS("redis", cfg.Redis.ClientTLS)
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
		for _, warning := range cfg.Warnings() {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
		}
		file := cmp.Or(l.File, "no file, only defaults, environment and flags")
		return c.print(cmd, map[string]any{"ok": true, "file": l.File}, func(w io.Writer) {
			fmt.Fprintf(w, "the configuration is right: %s\n", file)
		})
	})
}

func (c *cli) configImport() *cobra.Command {
	var zone string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Print a config.yaml made of the configuration of Leaf, of UidGenerator or of a Redis-queue service",
		Long: `Print a config.yaml made of the configuration of Leaf, of UidGenerator or of a Redis-queue
service. FILE is leaf.properties, also that of NotFound9's fork; UidGenerator's
default-uid-spring.xml, cached-uid-spring.xml or mysql.properties; or an application.yml
with spring.datasource and spring.redis. A comment names each key that has no counterpart.
${NAME} is replaced as Spring does, by a variable of that name. What is printed has the
passwords of FILE.`,
		Example: `  shardid config import leaf.properties > config.yaml && shardid config check
  shardid config import --java-zone America/New_York cached-uid-spring.xml
  DB_PASSWORD=… shardid config import application.yml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.ran = true
			at, err := time.LoadLocation(zone)
			if err != nil {
				return fmt.Errorf("%w: --java-zone is no time zone: write a name such as Asia/Shanghai", model.ErrInvalidArgument)
			}
			text, err := javaconf.Import(args[0], javaconf.Options{Zone: at, Getenv: javaconf.Environment})
			if err != nil {
				return fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		},
	}
	cmd.Flags().StringVar(&zone, "java-zone", "Asia/Shanghai", "`zone` of the JVM, in which UidGenerator's epochStr is midnight")
	return cmd
}
