package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/access"

	"github.com/gofrs/flock"
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
	apps, tags, names   []string
	spaces, modes       []string
	rate                float64
	burst               int
	perSecond           int64
	file                string
}

func (c *cli) tokenNew() *cobra.Command {
	var flags tokenFlags
	cmd := &cobra.Command{
		Use:   "new --name NAME --role get|admin",
		Short: "Make a token, and its entry for the file: the token itself is shown here and never again",
		Example: `  shardid token new --name orders-service --role get --apps 1,7 --rate 500
  shardid token new --name billing --role get --tags 'invoices,bill*' --modes segment,uid
  shardid token new --name shop --role get --names orders --spaces 'chat*'
  shardid token new --name alice --role admin --expires 2027-01-31 --append tokens.yaml`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&flags.name, "name", "", "`name` for people and logs")
	choose(cmd, &flags.role, "role", "", "get (IDs) or admin (administration)", "get", "admin")
	f.StringSliceVar(&flags.apps, "apps", nil, "`appIds` of the queue mode, or *")
	f.StringSliceVar(&flags.tags, "tags", nil, "`tags` of the segment mode, pre* for all that begin so, or *")
	f.StringSliceVar(&flags.names, "names", nil, "`names` of worker IDs that may be leased, pre* for all that begin so, or *")
	f.StringSliceVar(&flags.spaces, "spaces", nil, "`spaces` of sequences, pre* for all that begin so, or *")
	f.StringSliceVar(&flags.modes, "modes", nil, "queue, segment, snowflake, uid, lease, sequence (default those that --apps, --tags, --names and --spaces are for)")
	f.Float64Var(&flags.rate, "rate", 0, "`requests` a second (default no limit)")
	f.IntVar(&flags.burst, "burst", 0, "`requests` at once (default those of a second)")
	f.Int64Var(&flags.perSecond, "ids-per-second", 0, "`IDs` a second (default no limit)")
	offer(cmd, "modes", append(modes(), "lease")...)
	f.StringVar(&flags.expires, "expires", "", "`day` from which it is refused, such as 2027-01-31")
	f.StringVar(&flags.file, "append", "", "add the entry to this `FILE` and print the token only")
	required(cmd, "name", "role")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, _ Config) error {
		token, sum := access.Generate()
		entry := flags.entry(sum)
		if _, err := access.Parse("the token", []byte(entry)); err != nil {
			return fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
		}
		if flags.file != "" {
			if err := appendEntry(flags.file, entry); err != nil {
				return err
			}
		}
		return c.print(cmd, map[string]string{"name": flags.name, "token": token, "entry": entry}, func(w io.Writer) {
			fmt.Fprintln(w, token)
			if flags.file == "" {
				fmt.Fprintf(w, "\n# for server.tokens_file:\n%s", entry)
			}
		})
	})
}

// entry is the YAML of a token. Texts are quoted as YAML and Go both do.
func (f tokenFlags) entry(sum string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- name: %s\n  sha256: %q\n  role: %s\n", strconv.Quote(f.name), sum, strconv.Quote(f.role))
	writeList(&b, "apps", f.apps, false)
	writeList(&b, "tags", f.tags, true)
	writeList(&b, "names", f.names, true)
	writeList(&b, "spaces", f.spaces, true)
	writeList(&b, "modes", f.modes, true)
	if f.rate != 0 {
		fmt.Fprintf(&b, "  rate: %s\n", strconv.FormatFloat(f.rate, 'f', -1, 64))
	}
	if f.burst != 0 {
		fmt.Fprintf(&b, "  burst: %d\n", f.burst)
	}
	if f.perSecond != 0 {
		fmt.Fprintf(&b, "  ids_per_second: %d\n", f.perSecond)
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

// appendEntry puts an entry at the end of a file, which may not be there yet, when the
// whole is right then. Others who append wait: each adds to what the one before left.
func appendEntry(file, entry string) (err error) {
	if _, err := os.Lstat(file); err == nil { // write to what a link points to, so that it stays one
		if file, err = filepath.EvalSymlinks(file); err != nil {
			return fmt.Errorf("append the token: %w: correct the link", err)
		}
	}
	lock := flock.New(filepath.Dir(file), flock.SetFlag(os.O_RDONLY)) // not the file, which is replaced
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("append the token: lock the folder of %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := access.Regular(file); err != nil {
		return fmt.Errorf("append the token: %w: name a file", err)
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("append the token: %w", err)
	}
	text := strings.TrimRight(string(old), "\n")
	if text == "[]" || text == "" {
		text = entry
	} else {
		text += "\n\n" + entry
	}
	if _, err := access.Parse(file, []byte(text)); err != nil {
		return err
	}
	if err := replaceFile(file, text); err != nil {
		return fmt.Errorf("append the token: %w: run this as the file's owner or root, who may write its folder", err)
	}
	return nil
}

// replaceFile writes beside the file and renames, as a server may read it. One that is
// there keeps its owner and permissions; a new one is for this user only.
func replaceFile(file, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	if info, statErr := os.Stat(file); statErr == nil {
		err = keepOwner(f, info)
	}
	_, writeErr := f.WriteString(text)
	if err = errors.Join(err, writeErr, f.Sync(), f.Close()); err == nil {
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
		views := make([]access.View, len(tokens))
		for i, t := range tokens {
			views[i] = t.View()
		}
		cells := func(t *access.Token) []any {
			v, expires := t.View(), "never"
			if !v.Expires.IsZero() {
				expires = instant(v.Expires)
			}
			if t.Expired(time.Now()) {
				expires += ", so it is refused"
			}
			return []any{v.Name, v.Role, v.May, v.Rate, v.Quota, expires}
		}
		return c.print(cmd, views, table(tokens, "the file has no token", "NAME\tROLE\tMAY\tRATE\tQUOTA\tEXPIRES", cells))
	})
}
