package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/access"

	"github.com/spf13/cobra"
)

func (c *cli) token() *cobra.Command {
	var name, expires string
	var may []string
	var rate float64
	var perSecond int64
	cmd := &cobra.Command{
		Use:   "token new --name NAME --may WHAT,WHAT",
		Short: "Make a token, and print its entry for server.tokens_file",
		Long: `Make a token, and print its entry for server.tokens_file. The token itself goes to standard
error: it is shown here and never again. shardid config check checks the file.

--may takes queue:1 (app 1), queue:* (every app), segment:orders (a tag), sequence:chat (a space), lease:carts
(worker IDs of a name), the last three also with * at the end, as in segment:pre*; snowflake; uid; and admin
(administration). Every token may read the pages of monitoring.`,
		Example: `  shardid token new --name orders-service --may queue:1,queue:7 --rate 500
  shardid token new --name billing --may 'segment:invoices,segment:bill*,uid'
  shardid token new --name alice --may admin --expires 2027-01-31 >> tokens.yaml`,
		ValidArgs: []string{"new"}, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`name` for people and logs")
	f.StringSliceVar(&may, "may", nil, "`what` the token permits; without it, monitoring only")
	f.Float64Var(&rate, "rate", 0, "most `requests` a second, and at once (default no limit)")
	f.Int64Var(&perSecond, "ids-per-second", 0, "most `IDs` a second, and at once (default no limit)")
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
