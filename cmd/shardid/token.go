package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shardid/model"
	"shardid/service/access"

	"github.com/spf13/cobra"
)

func (c *cli) token() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and check the bearer tokens of server.tokens_file",
		Example: `  shardid token new --name orders-service --role get --apps 1,7
  shardid token check --file tokens.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(c.tokenNew(), c.tokenCheck())
	return cmd
}

// tokenFlags are an entry of the file.
type tokenFlags struct {
	name, role, expires string
	apps, tags, modes   []string
	rate                float64
	burst               int
	file                string
}

func (c *cli) tokenNew() *cobra.Command {
	var flags tokenFlags
	cmd := &cobra.Command{
		Use:   "new --name NAME --role get|admin",
		Short: "Make a token, and its entry for the file: the token itself is shown here and never again",
		Example: `  shardid token new --name orders-service --role get --apps 1,7 --rate 500
  shardid token new --name billing --role get --tags 'invoices,bill*' --modes segment,uid
  shardid token new --name alice --role admin --expires 2027-01-31 --append tokens.yaml`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&flags.name, "name", "", "`name` for people and logs")
	f.StringVar(&flags.role, "role", "", "get (IDs) or admin (administration)")
	f.StringSliceVar(&flags.apps, "apps", nil, "`appIds` of the queue mode, or *")
	f.StringSliceVar(&flags.tags, "tags", nil, "`tags` of the segment mode, pre* for all that begin so, or *")
	f.StringSliceVar(&flags.modes, "modes", nil, "queue, segment, snowflake, uid (default those that --apps and --tags are for)")
	f.Float64Var(&flags.rate, "rate", 0, "`requests` a second (default no limit)")
	f.IntVar(&flags.burst, "burst", 0, "`requests` at once (default those of a second)")
	f.StringVar(&flags.expires, "expires", "", "`day` from which it is refused, such as 2027-01-31")
	f.StringVar(&flags.file, "append", "", "add the entry to this `FILE` and print the token only")
	for _, name := range []string{"name", "role"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is registered a few lines above
		}
	}
	return c.command(cmd, func(cmd *cobra.Command, _ []string, _ Config) error { return flags.run(cmd.OutOrStdout()) })
}

func (f tokenFlags) run(w io.Writer) error {
	token, sum := access.Generate()
	entry := f.entry(sum)
	if _, err := access.Parse("the token", []byte(entry)); err != nil {
		return err
	}
	if f.file == "" {
		_, err := fmt.Fprintf(w, "%s\n\n# for server.tokens_file:\n%s", token, entry)
		return err
	}
	if err := appendEntry(f.file, entry); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, token)
	return err
}

// entry is the YAML of a token. Texts are quoted as YAML and Go both do.
func (f tokenFlags) entry(sum string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- name: %s\n  sha256: %q\n  role: %s\n", strconv.Quote(f.name), sum, strconv.Quote(f.role))
	writeList(&b, "apps", f.apps, false)
	writeList(&b, "tags", f.tags, true)
	writeList(&b, "modes", f.modes, true)
	if f.rate != 0 {
		fmt.Fprintf(&b, "  rate: %s\n", strconv.FormatFloat(f.rate, 'f', -1, 64))
	}
	if f.burst != 0 {
		fmt.Fprintf(&b, "  burst: %d\n", f.burst)
	}
	if f.expires != "" {
		fmt.Fprintf(&b, "  expires: %q\n", f.expires)
	}
	return b.String()
}

func writeList(b *strings.Builder, key string, items []string, quoted bool) {
	switch {
	case len(items) == 0:
		return
	case len(items) == 1 && items[0] == "*":
		fmt.Fprintf(b, "  %s: \"*\"\n", key)
		return
	}
	shown := make([]string, len(items))
	for i, item := range items {
		if shown[i] = item; quoted || strings.Trim(item, "0123456789") != "" {
			shown[i] = strconv.Quote(item)
		}
	}
	fmt.Fprintf(b, "  %s: [%s]\n", key, strings.Join(shown, ", "))
}

// appendEntry puts an entry at the end of a file, which may not be there yet, when
// the whole is right then. It replaces the file at once, as a server may read it.
func appendEntry(file, entry string) (err error) {
	old, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("append the token: %w", err)
	}
	text := strings.TrimRight(string(old), "\n")
	if text != "" {
		text += "\n\n"
	}
	text += entry
	if _, err := access.Parse(file, []byte(text)); err != nil {
		return err
	}
	if err := replaceFile(file, text); err != nil {
		return fmt.Errorf("append the token: %w", err)
	}
	return nil
}

// replaceFile writes beside the file and renames. One that is there keeps its
// permissions, a new one is for this user only.
func replaceFile(file, text string) (err error) {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
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
			return fmt.Errorf("%w: no file is configured: give --file, or set server.tokens_file", model.ErrInvalidArgument)
		}
		tokens, err := access.ReadFile(file)
		if err != nil {
			return err
		}
		return printTokens(cmd.OutOrStdout(), tokens, time.Now())
	})
}

func printTokens(w io.Writer, tokens []*access.Token, now time.Time) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tROLE\tMAY\tRATE\tEXPIRES")
	for _, t := range tokens {
		v := t.View()
		expires := "never"
		if !v.Expires.IsZero() {
			expires = v.Expires.UTC().Format(time.RFC3339)
		}
		if t.Expired(now) {
			expires += ", so it is refused"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", v.Name, v.Role, v.May, v.Rate, expires)
	}
	return tw.Flush()
}
