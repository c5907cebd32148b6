package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shardid/model"

	"github.com/spf13/cobra"
)

func (c *cli) region() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "region adopt",
		Short: "Let a deployment that has issued IDs become region 0",
		Long: `Let a deployment that has issued IDs become region 0, and say what the others must not issue.

Numbers that tags and sequences issued before may belong to any region. So the same tags must begin above
them in other regions, by the commands that this prints, and spaces that were in use cannot be used there.
Stop all replicas, set region.id to 0 and region.bits on each, run this, and start them. You may run it again.`,
		Example:   "  shardid region adopt    # with region.id 0, before other regions are added",
		ValidArgs: []string{"adopt"}, Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		return c.onStores(cmd.Context(), cfg, func(ctx context.Context, o opened) error {
			start, err := o.db.AdoptRegion(ctx)
			if err != nil {
				return err
			}
			adopted := struct {
				Region model.Region `json:"region"`
				model.RegionStart
			}{region(cfg), start}
			return c.print(cmd, adopted, func(w io.Writer) {
				fmt.Fprintf(w, "this is %s (%s)\n", regionText(adopted.Region), o.db.Place())
				for _, t := range start.Tags {
					fmt.Fprintf(w, "in each other region: shardid tags add --tag %s --max-id %d", t.Tag, t.MaxID)
					if t.ShardBits > 0 {
						fmt.Fprintf(w, " --shard-bits %d", t.ShardBits)
					}
					fmt.Fprintln(w)
				}
				for _, tag := range start.Texts {
					fmt.Fprintf(w, "in no other region: the tag %s, whose IDs have a pattern\n", tag)
				}
				for _, space := range start.Spaces {
					fmt.Fprintf(w, "in no other region: the space %s of sequences\n", space)
				}
			})
		})
	})
}

func regionText(r model.Region) string {
	if r.Bits == 0 {
		return "none"
	}
	return fmt.Sprintf("region %d of %d (region.bits %d)", r.ID, 1<<r.Bits, r.Bits)
}

// askRegions compares this deployment with those of other regions.
func askRegions(ctx context.Context, cfg Config, ask asking, others []string) (found []model.Finding, err error) {
	own, failed := region(cfg), []error(nil)
	seen := map[int]string{own.ID: "this configuration"}
	for _, url := range others {
		f := model.Finding{Store: "region", Node: url, Setting: "region",
			Want: fmt.Sprintf("one of its own, of %d bits", own.Bits)}
		ask.url = url
		status, _, err := ask.status(context.WithoutCancel(ctx), cfg) // one that hangs takes no time of others
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", url, err))
			continue
		}
		theirs := status.Region
		f.Value = regionText(theirs)
		switch {
		case own.Bits == 0 || theirs.Bits == 0:
			f.Level, f.Why = model.LevelUnsafe, "give each one region.id and region.bits: a deployment without a "+
				"region issues the IDs of all"
		case theirs.Bits != own.Bits:
			f.Level, f.Why = model.LevelUnsafe, fmt.Sprintf("set the same region.bits, %d or %d, on all: the regions "+
				"overlap", own.Bits, theirs.Bits)
		case seen[theirs.ID] != "":
			f.Level, f.Why = model.LevelUnsafe, fmt.Sprintf("give one of them another region.id: %s is "+
				"region %d, too, and both issue the same IDs", seen[theirs.ID], theirs.ID)
		default:
			f.Level = model.LevelOK
		}
		seen[theirs.ID] = url
		found = append(found, f)
	}
	return found, errors.Join(failed...)
}
