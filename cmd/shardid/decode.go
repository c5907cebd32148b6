package main

import (
	"fmt"
	"io"
	"strconv"

	"shardid/client/idtext"
	"shardid/model"

	"github.com/spf13/cobra"
)

func (c *cli) decode() *cobra.Command {
	var kind, format string
	var shardBits int
	cmd := &cobra.Command{
		Use:   "decode [--kind queue|segment|snowflake|uid] [--format FORMAT] ID...",
		Short: "Take IDs apart",
		Long: `Take IDs apart by the epochs and widths of this configuration. For a scrambled app it shows
the scrambled index: only a server knows the secret, and its /decode shows the index itself.`,
		Example: `  shardid decode 16385
  shardid decode --kind snowflake 1169786042799259000 1169786042799259001
  shardid decode --format base62 4GH
  shardid decode --kind segment --shard-bits 10 1690
  xargs shardid decode --json < ids.txt
  shardid decode --kind uid --set uid.epoch=2016-05-20T00:00:00+08:00 3200169789968523265`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&kind, "kind", model.KindQueue, "queue, segment, snowflake or uid")
	cmd.Flags().IntVar(&shardBits, "shard-bits", 0, "shard `bits` of the tag, with --kind segment")
	cmd.Flags().StringVar(&format, "format", "", "dec, hex, base36, base62 or crockford (default dec)")
	return c.command(cmd, func(cmd *cobra.Command, words []string, cfg Config) error {
		for i, word := range words {
			id, err := idtext.ParseID(word, format)
			if err != nil {
				return err
			}
			parts, err := decoder(cfg).Decode(kind, id, shardBits)
			if err != nil {
				return err
			}
			digits := strconv.FormatInt(id, 10)
			object := map[string]any{"id": id, "idStr": digits, "kind": kind}
			for _, p := range parts {
				object[p.Name] = p.Value
			}
			err = c.print(cmd, object, func(w io.Writer) {
				if len(words) > 1 || word != digits {
					fmt.Fprintf(w, "%sid\t%s\n", map[bool]string{true: "\n"}[i > 0], digits)
				}
				for _, p := range parts {
					fmt.Fprintf(w, "%s\t%v\n", p.Name, p.Value)
				}
				if !cmd.Flags().Changed("kind") {
					fmt.Fprintf(w, "kind\t%s\n", kind)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
