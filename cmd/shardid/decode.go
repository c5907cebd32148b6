package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"shardid/model"

	"github.com/spf13/cobra"
)

func (c *cli) decode() *cobra.Command {
	var kind, format string
	var scrambled bool
	cmd := &cobra.Command{
		Use:   "decode [--kind queue|snowflake|uid] [--format FORMAT] [ID]...",
		Short: "Take IDs apart, those of the command line or of standard input",
		Example: `  shardid decode 16385
  shardid decode --kind snowflake 1169786042799259000 1169786042799259001
  shardid decode --format base62 4GH
  shardid decode --json < ids.txt
  shardid decode --scrambled 7193078914403336193
  shardid decode --kind uid --uid.epoch 2016-05-20T00:00:00+08:00 3200169789968523265`,
	}
	choose(cmd, &kind, "kind", model.KindQueue, "queue, snowflake or uid", model.KindQueue, model.KindSnowflake, model.KindUID)
	cmd.Flags().BoolVar(&scrambled, "scrambled", false, "read the secret of scrambled apps from the database: their index is shown, not its image")
	cmd.Flags().StringVar(&format, "format", "", "dec, hex, base36, base62 or crockford; empty: what only one of them writes, "+
		"digits are decimal")
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		args, err := givenOrRead(args, cmd.InOrStdin())
		if err != nil {
			return err
		}
		ids := make([]int64, len(args))
		for i, word := range args {
			if ids[i], err = model.ParseID(word, format); err != nil {
				return err
			}
		}
		decoder := decoder(cfg)
		if scrambled {
			secrets, err := readSecrets(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			decoder.Scramble = func(app uint8) string { return secrets[app] }
		}
		for i, id := range ids {
			parts, err := decoder.Decode(kind, id)
			if err != nil {
				return err
			}
			object := map[string]any{"id": id, "idStr": strconv.FormatInt(id, 10), "kind": kind}
			for _, p := range parts {
				object[p.Name] = p.Value
			}
			if err := c.print(cmd, object, func(w io.Writer) {
				if digits := strconv.FormatInt(id, 10); len(ids) > 1 || args[i] != digits {
					fmt.Fprintf(w, "%sid\t%s\n", map[bool]string{true: "\n"}[i > 0], digits)
				}
				for _, p := range parts {
					fmt.Fprintf(w, "%s\t%v\n", p.Name, p.Value)
				}
				for _, hint := range otherKinds(decoder, kind, id, time.Now()) {
					fmt.Fprintln(w, hint)
				}
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// givenOrRead are the words of the command line or, without any, of standard input.
func givenOrRead(args []string, stdin io.Reader) ([]string, error) {
	if len(args) == 0 && !isTerminal(os.Stdin) {
		words := bufio.NewScanner(stdin)
		for words.Split(bufio.ScanWords); words.Scan(); {
			args = append(args, words.Text())
		}
		if err := words.Err(); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: give an ID, or IDs on standard input: see shardid decode --help", model.ErrInvalidArgument)
	}
	return args, nil
}

// readSecrets asks the database for those of scrambled apps.
func readSecrets(ctx context.Context, cfg Config) (secrets map[uint8]string, err error) {
	if err := needData(ctx, cfg); err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, cfg, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	return db.Scrambled(ctx)
}

// otherKinds are hints at kinds of which the ID may be as well: a time that has been, and
// not within the first day of the epoch, or an index that a list may have reached.
func otherKinds(d model.Decoder, kind string, id int64, now time.Time) (hints []string) {
	if q, err := model.DecodeQueueID(id); kind != model.KindQueue && err == nil && q.Index < 1<<40 {
		hints = append(hints, fmt.Sprintf("with --kind queue: index %d of shard %d, app %d", q.Index, q.Shard, q.App))
	}
	for other, epoch := range map[string]time.Time{
		model.KindSnowflake: time.UnixMilli(d.Snowflake.EpochMs), model.KindUID: d.UID.Epoch,
	} {
		parts, err := d.Decode(other, id)
		if other == kind || err != nil {
			continue
		}
		fields := map[string]any{}
		for _, p := range parts {
			fields[p.Name] = p.Value
		}
		at, err := time.Parse(time.RFC3339, fmt.Sprint(fields["time"]))
		if err == nil && at.After(epoch.Add(24*time.Hour)) && at.Before(now.Add(time.Hour)) {
			hints = append(hints, fmt.Sprintf("with --kind %s: %s, worker %v", other, fields["time"], fields["workerId"]))
		}
	}
	return hints
}
