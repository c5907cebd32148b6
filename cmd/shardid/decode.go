package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
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
		Long: `Take IDs apart, those of the command line or of standard input.

Without --kind, the kind is the one that fits an ID best: of a UID or a snowflake the
time must be past, by the epochs and widths of this configuration. Other kinds that fit
as well are named below.`,
		Example: `  shardid decode 16385
  shardid decode 1169786042799259000                             # finds that it is a snowflake
  shardid decode --kind snowflake 1169786042799259000 1169786042799259001
  shardid decode --format base62 4GH
  shardid decode --json < ids.txt
  shardid decode --scrambled 7193078914403336193
  shardid decode --kind uid --set uid.epoch=2016-05-20T00:00:00+08:00 3200169789968523265`,
	}
	choose(cmd, &kind, "kind", "", "queue, snowflake or uid (default the one that fits best)", model.KindQueue, model.KindSnowflake, model.KindUID)
	cmd.Flags().BoolVar(&scrambled, "scrambled", false, "read the secret of scrambled apps from the database: their index is shown, not its image")
	cmd.Flags().StringVar(&format, "format", "", "dec, hex, base36, base62 or crockford; empty: what only one of them writes, "+
		"digits are decimal")
	offer(cmd, "format", "dec", "hex", "base36", "base62", "crockford")
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		args, err := givenOrRead(args, cmd.InOrStdin())
		if err != nil {
			return err
		}
		ids, err := parseIDs(args, format)
		if err != nil {
			return err
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
			d, err := takeApart(decoder, id, kind, scrambled)
			if err != nil {
				return err
			}
			err = c.print(cmd, d.object(), func(w io.Writer) {
				if digits := strconv.FormatInt(id, 10); len(ids) > 1 || args[i] != digits {
					fmt.Fprintf(w, "%sid\t%s\n", map[bool]string{true: "\n"}[i > 0], digits)
				}
				d.print(w, kind == "")
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func parseIDs(words []string, format string) (ids []int64, err error) {
	ids = make([]int64, len(words))
	for i, word := range words {
		if ids[i], err = model.ParseID(word, format); err != nil {
			return nil, err
		}
		if ids[i] < 0 {
			return nil, fmt.Errorf("%w: %d is not an ID: IDs are positive", model.ErrInvalidArgument, ids[i])
		}
	}
	return ids, nil
}

// decoded is an ID, its parts as one of a kind, and all kinds that fit it, the best one first.
type decoded struct {
	id    int64
	kind  string
	parts []model.Part
	found []fit
}

// takeApart decodes an ID of a kind. Without a kind, that is the one that fits best; it is the
// queue where none fits, and where the secrets of scrambled apps were asked for.
func takeApart(d model.Decoder, id int64, kind string, scrambled bool) (decoded, error) {
	found := fits(d, id, time.Now())
	if kind == "" && !scrambled && len(found) > 0 {
		kind = found[0].kind
	}
	kind = cmp.Or(kind, model.KindQueue)
	parts, err := d.Decode(kind, id)
	return decoded{id, kind, parts, found}, err
}

// object is what --json shows.
func (d decoded) object() map[string]any {
	object := map[string]any{"id": d.id, "idStr": strconv.FormatInt(d.id, 10), "kind": d.kind}
	for _, p := range d.parts {
		object[p.Name] = p.Value
	}
	return object
}

// print writes the parts, the kind where that was chosen among those found, and the others.
func (d decoded) print(w io.Writer, chosen bool) {
	for _, p := range d.parts {
		fmt.Fprintf(w, "%s\t%v\n", p.Name, p.Value)
	}
	if chosen {
		fmt.Fprintf(w, "kind\t%s\n", d.kind)
	}
	for _, other := range d.found {
		if other.kind != d.kind {
			fmt.Fprintf(w, "with --kind %s: %s\n", other.kind, other.hint)
		}
	}
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
	err = onStores(ctx, cfg, needData, func(ctx context.Context, o opened) error {
		secrets, err = o.db.Scrambled(ctx)
		return err
	})
	return secrets, err
}

// fit is a kind that an ID may be of, and what it is then.
type fit struct{ kind, hint string }

// fits are the kinds that fit an ID, the best one first: a time that has been, the latest
// first, and not within the first day of the epoch; of a UID also a worker ID that is small,
// as it counts starts; then an index that a list may have reached.
func fits(d model.Decoder, id int64, now time.Time) (all []fit) {
	const (
		mostStarts = 1 << 16 // of all snowflakes, one in 64 has less there
		mostIndex  = 1 << 40
	)
	var latest time.Time
	for _, c := range []struct {
		kind  string
		epoch time.Time
		most  int64
	}{
		{model.KindUID, d.UID.Epoch, mostStarts},
		{model.KindSnowflake, time.UnixMilli(d.Snowflake.EpochMs), model.SnowflakeWorkers},
	} {
		fields := map[string]any{}
		parts, err := d.Decode(c.kind, id)
		for _, p := range parts {
			fields[p.Name] = p.Value
		}
		at, unread := time.Parse(time.RFC3339, fmt.Sprint(fields["time"]))
		worker, _ := fields["workerId"].(int64)
		if err != nil || unread != nil || at.Before(c.epoch.Add(24*time.Hour)) || at.After(now.Add(time.Hour)) || worker >= c.most {
			continue
		}
		if all = append(all, fit{c.kind, fmt.Sprintf("%s, worker %d", fields["time"], worker)}); at.After(latest) {
			slices.Reverse(all) // there are two at most
			latest = at
		}
	}
	if q, err := model.DecodeQueueID(id); err == nil && d.Region.Within(q.Index) < mostIndex {
		all = append(all, fit{model.KindQueue, fmt.Sprintf("index %d of shard %d, app %d", q.Index, q.Shard, q.App)})
	}
	return all
}
