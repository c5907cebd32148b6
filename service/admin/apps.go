package admin

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"shardid/model"
)

// AppKind are the apps of the queue mode. The step is by default that of the table's column.
var AppKind = Kind{One: "app", Many: "apps", Path: "apps", Fields: []Field{
	{Name: "id", Usage: "`ID` of the app, 0…255", Value: number(0, model.Apps-1), Add: Must},
	{Name: "name", Usage: "app `name`", Value: text, Add: Must, Set: May},
	{Name: "description", Usage: "`text` for people", Value: text, Add: May, Set: May},
	{Name: "step", Usage: "smallest segment, in `indices`",
		Value: number(1, model.MaxStep), Default: int64(1000), Add: May, Set: May},
	{Name: "maxLimitId", Usage: "highest `ID` that may be issued, 0 for none; not below one that may have been",
		Value: number(0, math.MaxInt64), Add: May, Set: May},
	{Name: "limitPolicy", Usage: "above the limit: reject, or wrap, which repeats IDs; a change to it needs --confirm",
		Value:   oneOf(string(model.LimitReject), string(model.LimitWrap)),
		Default: string(model.LimitReject), Add: May, Set: May},
	{Name: "scramble", Usage: "IDs show neither their order nor how many there are",
		Value: yesNo, Default: false, Add: May},
	{Name: "minIndex", Usage: "raise max_id of every shard to this `index`",
		Value: number(0, model.MaxIndex-1), Set: May},
}}

// AppItem is an app as it is shown. Numbers that may be above 2^53 also come as strings. ID is the older name of
// AppID.
type AppItem struct {
	AppID         uint8             `json:"appId"`
	ID            uint8             `json:"id"`
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	Shards        int               `json:"shards"`
	Step          int64             `json:"step"`
	MaxLimitID    int64             `json:"maxLimitId"`
	MaxLimitIDStr string            `json:"maxLimitIdStr"`
	MixedLimits   bool              `json:"mixedLimits,omitempty"` // not all shards have the limit
	LimitPolicy   model.LimitPolicy `json:"limitPolicy"`
	Scramble      bool              `json:"scramble"`
	HighestIndex  int64             `json:"highestIndex"`
	TotalIndices  int64             `json:"totalIndices"`
}

func newAppItem(a model.AppSummary) AppItem {
	return AppItem{
		AppID: a.ID, ID: a.ID, Name: a.Name, Description: a.Description, Shards: a.Shards, Step: a.Step,
		MaxLimitID: a.Limit.MaxID, MaxLimitIDStr: strconv.FormatInt(a.Limit.MaxID, 10), MixedLimits: a.MixedLimits,
		LimitPolicy: a.Limit.Policy, Scramble: a.Scramble,
		HighestIndex: a.HighestIndex, TotalIndices: a.TotalIndices,
	}
}

func (s *Service) apps() Resource {
	store := s.opts.Store
	check := func(key string) error {
		_, err := model.ParseRange("`id` must be", key, 0, model.Apps-1)
		return err
	}
	appID := func(key string) uint8 {
		n, _ := strconv.ParseUint(key, 10, 8) // it was checked
		return uint8(n)
	}
	return Resource{
		Kind: AppKind, service: s, check: check, replica: &s.opts.Queue,
		list: listAll(store.Apps, // in their order
			func(a model.AppSummary) string { return fmt.Sprintf("%3d %s", a.ID, a.Name) }, newAppItem),
		show: func(ctx context.Context, key string) (any, error) {
			app, err := store.App(ctx, appID(key))
			return newAppItem(app), err
		},
		create: func(ctx context.Context, g Given) (Done, error) {
			app, err := store.CreateApp(ctx, model.App{
				ID:          uint8(get[int64](g, "id")),
				Name:        get[string](g, "name"),
				Description: get[string](g, "description"),
				Step:        get[int64](g, "step"),
				Limit: model.Limit{
					MaxID: get[int64](g, "maxLimitId"), Policy: model.LimitPolicy(get[string](g, "limitPolicy")),
				},
				Scramble: get[bool](g, "scramble"),
			})
			return Done{After: newAppItem(app)}, err
		},
		change: func(ctx context.Context, key string, g Given, confirm string) (Done, error) {
			change := model.AppChange{
				Name:        pointer[string](g, "name"),
				Description: pointer[string](g, "description"),
				Step:        pointer[int64](g, "step"),
				MaxLimitID:  pointer[int64](g, "maxLimitId"),
				LimitPolicy: (*model.LimitPolicy)(pointer[string](g, "limitPolicy")),
				MinIndex:    pointer[int64](g, "minIndex"),
				Confirm:     confirm,
			}
			before, after, err := store.ChangeApp(ctx, appID(key), change)
			return Done{Before: newAppItem(before), After: newAppItem(after)}, err
		},
		remove: func(ctx context.Context, key, confirm string) (Done, error) {
			was, err := store.DeleteApp(ctx, appID(key), confirm)
			return Done{Before: newAppItem(was)}, err
		},
	}
}
