package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/access"

	"github.com/spf13/cobra"
)

func (c *cli) token() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and check the bearer tokens of server.tokens_file",
		Example: `  shardid token new --name orders-service --may queue:1,queue:7
  shardid token check --file tokens.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.tokenNew(), c.tokenCheck())
	return cmd
}

func (c *cli) tokenNew() *cobra.Command {
	var name, expires string
	var may []string
	var rate float64
	var perSecond int64
	cmd := &cobra.Command{
		Use:   "new --name NAME --may WHAT,WHAT",
		Short: "Make a token, and print the line to paste into the file",
		Long: `Make a token, and print the line to paste into the file. The token itself goes to standard
error: it is shown here and never again.

What it may have: queue:1 (app 1), segment:orders (a tag), lease:carts (worker IDs of a name), sequence:chat (a
space), each with * at the end for any end, as in segment:pre*; queue:* (every app); snowflake; uid; admin
(administration). Every token may read the pages of monitoring.`,
		Example: `  shardid token new --name orders-service --may queue:1,queue:7 --rate 500
  shardid token new --name billing --may 'segment:invoices,segment:bill*,uid'
  shardid token new --name alice --may admin --expires 2027-01-31 >> tokens.yaml`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`name` for people and logs")
	f.StringSliceVar(&may, "may", nil, "`what` it may have; none: it is for monitoring")
	f.Float64Var(&rate, "rate", 0, "`requests` a second, and at once (default no limit)")
	f.Int64Var(&perSecond, "ids-per-second", 0, "`IDs` a second, and at once (default no limit)")
	f.StringVar(&expires, "expires", "", "`day` from which it is refused, such as 2027-01-31")
	_ = cmd.MarkFlagRequired("name") // it is a flag
	return c.command(cmd, func(cmd *cobra.Command, _ []string, _ Config) error {
		token, sum := access.Generate()
		quoted := make([]string, len(may))
		for i, grant := range may {
			quoted[i] = strconv.Quote(grant)
		}
		entry := fmt.Sprintf("- {name: %q, sha256: %q, may: [%s]", name, sum, strings.Join(quoted, ", "))
		if rate != 0 {
			entry += ", rate: " + strconv.FormatFloat(rate, 'f', -1, 64)
		}
		if perSecond != 0 {
			entry += fmt.Sprintf(", ids_per_second: %d", perSecond)
		}
		if expires != "" {
			entry += fmt.Sprintf(", expires: %q", expires)
		}
		entry += "}"
		if _, err := access.Parse("the token", []byte(entry)); err != nil {
			return fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
		}
		return c.print(cmd, map[string]string{"name": name, "token": token, "entry": entry}, func(w io.Writer) {
			fmt.Fprintln(cmd.ErrOrStderr(), "the token, for its caller: "+token)
			fmt.Fprintln(w, entry)
		})
	})
}

func (c *cli) tokenCheck() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "check [--file FILE]",
		Short:   "Check a file of tokens, and say what each may do",
		Example: "  shardid token check\n  shardid token check --file tokens.yaml",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "file", "", "`FILE` with the tokens (default the configured server.tokens_file)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		if file == "" {
			file = cfg.Server.TokensFile
		}
		if file == "" {
			return fmt.Errorf("%w: no file is configured: give --file, or set server.tokens_file",
				model.ErrInvalidArgument)
		}
		tokens, err := access.ReadFile(file)
		if err != nil {
			return err
		}
		views := make([]access.View, len(tokens))
		for i, t := range tokens {
			views[i] = t.View()
		}
		cells := func(t *access.Token) []any {
			v, expires, may := t.View(), "never", "nothing but monitoring"
			if len(v.May) > 0 {
				may = strings.Join(v.May, ", ")
			}
			if !v.Expires.IsZero() {
				expires = instant(v.Expires)
			}
			if t.Expired(time.Now()) {
				expires += ", so it is refused"
			}
			return []any{v.Name, may, orNone(v.Rate), orNone(float64(v.IDsPerSecond)), expires}
		}
		const head = "NAME\tMAY\tREQUESTS/S\tIDS/S\tEXPIRES"
		return c.print(cmd, views, table(tokens, "the file has no token", head, cells))
	})
}

// orNone is a limit for people; 0 is none.
func orNone(limit float64) string {
	if limit == 0 {
		return "no limit"
	}
	return strconv.FormatFloat(limit, 'f', -1, 64)
}
