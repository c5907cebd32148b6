package main

import (
	"context"
	"fmt"
	"io"

	"shardid/model"

	"github.com/spf13/cobra"
)

// regionObject is what the commands about the region print.
type regionObject struct {
	// of the database; null before the first ID, and for a deployment alone
	Region     *model.Region `json:"region"`
	Configured model.Region  `json:"configured"` // region.id and region.bits
	model.RegionStart
}

// verbAdopt makes a deployment a region.
const verbAdopt = "adopt"

func (c *cli) region() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "region [adopt]",
		Short: "Show the region of this deployment, or let a used one become region 0",
		Long: `Show the region of this deployment.

adopt makes a deployment that has issued IDs region 0, and says what the others must not issue. Numbers of
tags and of sequences that were issued before may be those of any region. So the tags of other regions must
begin above them, with the commands that this prints, and spaces of sequences that were in use cannot be used
there. Stop all replicas, set region.id to 0 and region.bits on each, run this, and start them. It may run
again.`,
		Example: `  shardid region
  shardid region adopt    # with region.id 0, before other regions are added`,
		ValidArgs: []string{verbAdopt}, Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
	}
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		return onStores(cmd.Context(), cfg, needData, func(ctx context.Context, o opened) error {
			if len(args) > 0 {
				return c.adoptRegion(ctx, cmd, o)
			}
			recorded, err := o.db.Region(ctx)
			if err != nil {
				return err
			}
			shown := regionObject{Configured: region(cfg)}
			if recorded.Bits > 0 {
				shown.Region = &recorded
			}
			return c.print(cmd, shown, func(w io.Writer) {
				if recorded.Bits == 0 {
					fmt.Fprintf(w, "no region is recorded; the configuration says %s\n", regionText(shown.Configured))
					return
				}
				fmt.Fprintf(w, "this is %s; the configuration says %s\n",
					regionText(recorded), regionText(shown.Configured))
			})
		})
	})
}

// adoptRegion makes the deployment region 0, and says what the others must not issue.
func (c *cli) adoptRegion(ctx context.Context, cmd *cobra.Command, o opened) error {
	start, err := o.db.AdoptRegion(ctx)
	if err != nil {
		return err
	}
	r := region(o.cfg)
	return c.print(cmd, regionObject{&r, r, start}, func(w io.Writer) {
		fmt.Fprintf(w, "this is %s\n", regionText(r))
		for _, t := range start.Tags {
			fmt.Fprintf(w, "in each other region: shardid tags add --tag %s --max-id %d\n", t.Tag, t.MaxID)
		}
		for _, space := range start.Spaces {
			fmt.Fprintf(w, "in no other region: the space %s of sequences\n", space)
		}
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
	own := region(cfg)
	seen := map[int]string{own.ID: "this configuration"}
	for _, url := range others {
		f := model.Finding{Store: "region", Node: url, Setting: "region",
			Want: fmt.Sprintf("one of its own, of %d bits", own.Bits)}
		ask.url = url
		status, _, err := ask.status(ctx, cfg)
		if err != nil {
			f.Level, f.Why = model.LevelUnknown, oneLine(err)
			found = append(found, f)
			continue
		}
		theirs := model.Region{}
		if status.Region != nil {
			theirs = *status.Region
		}
		f.Value = regionText(theirs)
		switch {
		case own.Bits == 0 || theirs.Bits == 0:
			f.Level, f.Why = model.LevelUnsafe, "a deployment without a region issues the IDs of all: give each one "+
				"region.id and region.bits"
		case theirs.Bits != own.Bits:
			f.Level, f.Why = model.LevelUnsafe, fmt.Sprintf("the regions overlap: set the same region.bits, %d or "+
				"%d, on all", own.Bits, theirs.Bits)
		case seen[theirs.ID] != "":
			f.Level, f.Why = model.LevelUnsafe, fmt.Sprintf("%s is region %d too: both issue the same IDs",
				seen[theirs.ID], theirs.ID)
		default:
			f.Level = model.LevelOK
		}
		seen[theirs.ID] = url
		found = append(found, f)
	}
	return found, nil
}
