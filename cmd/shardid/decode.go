package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"shardid/model"

	"github.com/spf13/cobra"
)

func (c *cli) decode() *cobra.Command {
	var kind string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "decode [--kind queue|snowflake|uid] ID",
		Short: "Take an ID apart",
		Example: `  shardid decode 16385
  shardid decode --kind snowflake 1169786042799259000
  shardid decode --kind uid --uid.epoch 2016-05-20T00:00:00+08:00 3200169789968523265`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&kind, "kind", model.KindQueue, "queue, snowflake or uid")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %q is not an ID: IDs are whole numbers below 2^63", model.ErrInvalidArgument, args[0])
		}
		parts, err := decoder(cfg).Decode(kind, id)
		if err != nil {
			return err
		}
		return printParts(cmd.OutOrStdout(), parts, asJSON)
	})
}

func printParts(w io.Writer, parts []model.Part, asJSON bool) error {
	if asJSON {
		object := map[string]any{}
		for _, p := range parts {
			object[p.Name] = p.Value
		}
		return json.NewEncoder(w).Encode(object)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range parts {
		fmt.Fprintf(tw, "%s\t%v\n", p.Name, p.Value)
	}
	return tw.Flush()
}
