package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"shardid/client/idgen"
	"shardid/client/idtext"
	"shardid/model"
)

// maxHolders is how many holders of a name are shown at most.
const maxHolders = 1000

// NameKind are spaces of worker IDs, each with a layout of its own: by default that of Twitter's snowflakes.
var NameKind = Kind{One: "name", Many: "names", Path: "names", Fields: []Field{
	{Name: "name", Usage: "`name`, at most 64 letters, digits, dots, hyphens and underscores", Value: text, Add: Must},
	{Name: "epoch", Usage: "from which the time in IDs counts, in Unix `milliseconds`",
		Value: instant, Default: int64(1288834974657), Add: May},
	{Name: "workerBits", Usage: "`width` of the worker ID in an ID, 1…22, with --seq-bits 24 at most",
		Value: number(1, model.MaxNameWorkerBits), Default: int64(model.LeafWorkerBits), Add: May},
	{Name: "seqBits", Usage: "`width` of the sequence in an ID, 1…22",
		Value: number(1, model.MaxNameSeqBits), Default: int64(model.LeafSeqBits), Add: May},
	{Name: "shardBits", Usage: "so many `bits` of the sequence, the lowest, are those of a shard key, 1…16",
		Value: number(1, idtext.MaxShardBits), Default: int64(0), Add: May},
	{Name: "hold", Usage: "how long a holder may continue without shardid, `5s…1h`",
		Value: hold, Default: seconds(model.DefaultHold), Add: May, Set: Must},
}}

// NameItem is a name of worker IDs as it is shown.
type NameItem struct {
	Name string `json:"name"`
	idgen.Layout
	Hold    string             `json:"hold"` // in seconds, such as 60s
	Leased  int64              `json:"leased"`
	Workers int64              `json:"workers"`          // how many worker IDs there are, in this region
	Holders []model.NameHolder `json:"holders,omitzero"` // of a name that is shown alone, at most maxHolders
}

// newNameItem shows a name with how much of it is in use.
func (s *Service) newNameItem(u model.NameUse) NameItem {
	_, workers := s.opts.Region.Workers(u.WorkerBits)
	return NameItem{Name: u.Name.Name, Layout: u.Layout, Hold: seconds(u.Hold), Leased: u.Leased, Workers: workers}
}

// unusedName shows a name of which nothing is leased, or none of whose leases count.
func (s *Service) unusedName(n model.Name) NameItem { return s.newNameItem(model.NameUse{Name: n}) }

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }

// Names are the spaces of worker IDs.
func (s *Service) Names() Resource {
	store := s.opts.Store
	return Resource{
		Kind: NameKind, service: s, check: model.CheckName, counts: atOnce,
		list:   listAll(store.Names, func(u model.NameUse) string { return u.Name.Name }, s.newNameItem),
		remove: remover(NameKind, store.DeleteName, s.unusedName),
		show: func(ctx context.Context, name string) (any, error) {
			use, err := store.Name(ctx, name)
			if err != nil {
				return nil, err
			}
			holders, err := store.Holders(ctx, name, maxHolders)
			item := s.newNameItem(use)
			item.Holders = holders
			return item, err
		},
		create: func(ctx context.Context, g Given) (Done, error) {
			hold, _ := time.ParseDuration(get[string](g, "hold")) // it was read before
			name := model.Name{
				Name: get[string](g, "name"), Hold: hold,
				Layout: model.NameLayout(get[int64](g, "epoch"), uint(get[int64](g, "workerBits")),
					uint(get[int64](g, "seqBits")), uint(get[int64](g, "shardBits"))),
			}
			if name.Name == s.opts.OwnName {
				return Done{}, fmt.Errorf("%w: %w: %q is snowflake.name, whose worker IDs belong to the replicas",
					model.Do("choose another name"), model.ErrRefused, name.Name)
			}
			made, err := store.CreateName(ctx, name)
			return Done{After: s.unusedName(made)}, err
		},
		change: func(ctx context.Context, name string, g Given, _ string) (Done, error) {
			hold, _ := time.ParseDuration(get[string](g, "hold"))
			before, after, err := store.ChangeName(ctx, name, hold)
			return Done{s.unusedName(before), s.newNameItem(after), holdCounts(after.Name, s.opts.Now())}, err
		},
	}
}

// holdCounts says for people which leases have the hold that a name was given: a shorter one counts at once, a
// longer one later.
func holdCounts(n model.Name, now time.Time) string {
	from := "now"
	if n.GrantHold(now.UnixMilli()) < n.Hold {
		from = time.UnixMilli(n.Note.LowMs).UTC().Format(time.RFC3339)
	}
	return "for leases that are granted or renewed from " + from + " on"
}
