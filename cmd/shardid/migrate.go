package main

import (
	"fmt"

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
		if err := db.Migrate(cmd.Context(), func(line string) {
			if steps = append(steps, line); !c.json {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
		}); err != nil || !c.json {
			return err
		}
		return c.print(cmd, map[string][]string{"steps": steps}, nil)
	})
}
