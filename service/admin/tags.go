package admin

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"shardid/client/idtext"
	"shardid/model"
)

// TagKind are the tags of the segment mode. The step is by default that of Leaf's own example row.
var TagKind = Kind{One: "tag", Many: "tags", Path: "tags", Fields: []Field{
	{Name: "tag", Usage: "tag `name`, at most 128 bytes", Value: text, Add: Must},
	{Name: "step", Usage: "smallest segment, in `IDs`",
		Value: number(1, model.MaxTagStep), Default: int64(2000), Add: May, Set: May},
	{Name: "maxId", Usage: "next `ID` to hand out; it only rises",
		Value: number(1, model.MaxTagID), Default: int64(1), Add: May, Set: May},
	{Name: "after", Usage: "business `number` after which to continue, in place of the next ID", Value: text, Set: May},
	{Name: "description", Usage: "`text` for people", Value: text, Add: May, Set: May},
	{Name: "pattern", Usage: "`text` of the IDs, with {yyyyMMdd}, {yyyyMM}, {yyyy}, {MM}, {dd} and one {seq:N}",
		Value: text, Default: "", Add: May},
	{Name: "reset", Usage: "when {seq:N} begins at 1 again: day, month, year or none", Value: text, Add: May},
	{Name: "zone", Usage: "in which days begin: UTC (default), +05:30, or a `name` such as Asia/Shanghai",
		Value: text, Add: May},
	{Name: "overflow", Usage: "what follows N digits: widen (default) or refuse", Value: text, Add: May},
	{Name: "shardBits", Usage: "so many low `bits` of the IDs are those of a caller's key, 1…16; they never change",
		Value: number(1, idtext.MaxShardBits), Default: int64(0), Add: May},
}}

// TagItem is a tag as it is shown.
type TagItem struct {
	Tag         string    `json:"tag"`
	MaxID       int64     `json:"maxId"`
	MaxIDStr    string    `json:"maxIdStr"`
	Step        int64     `json:"step"`
	Description string    `json:"description"`
	UpdatedAt   time.Time `json:"updatedAt"`

	ShardBits uint `json:"shardBits,omitempty"` // maxId counts numbers then

	// Of a tag with business numbers.
	Pattern  string         `json:"pattern,omitempty"`
	Reset    model.Reset    `json:"reset,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	Overflow model.Overflow `json:"overflow,omitempty"`
	Example  string         `json:"example,omitempty"` // the text of MaxID
}

func newTagItem(t model.Tag) TagItem {
	bits := t.ShardBits()
	if bits > 0 {
		t.Numbering = model.Numbering{}
	}
	return TagItem{
		ShardBits: bits,
		Tag:       t.Name, MaxID: t.MaxID, MaxIDStr: strconv.FormatInt(t.MaxID, 10),
		Step: t.Step, Description: t.Description, UpdatedAt: t.UpdatedAt.UTC(),
		Pattern: t.Pattern, Reset: t.Reset, Zone: t.Zone, Overflow: t.Overflow, Example: t.Example(time.Now()),
	}
}

func (s *Service) tags() Resource {
	store := s.opts.Store
	return Resource{
		Kind: TagKind, service: s, check: model.CheckTag, replica: &s.opts.Segment,
		list: func(ctx context.Context, search string, limit int) (any, int, error) {
			tags, total, err := store.FindTags(ctx, search, limit)
			return Items(tags, newTagItem), total, err
		},
		show:   shower(store.Tag, newTagItem),
		remove: remover(TagKind, store.DeleteTag, newTagItem),
		create: func(ctx context.Context, g Given) (Done, error) {
			numbering := model.Numbering{
				Pattern: get[string](g, "pattern"), Reset: model.Reset(get[string](g, "reset")),
				Zone: get[string](g, "zone"), Overflow: model.Overflow(get[string](g, "overflow")),
			}
			if bits := get[int64](g, "shardBits"); bits > 0 {
				if numbering != (model.Numbering{}) {
					return Done{}, fmt.Errorf("%w: give `shardBits` or `pattern`, not both: the IDs of a tag "+
						"with a pattern are texts", model.ErrInvalidArgument)
				}
				var err error
				if numbering, err = model.ShardNumbering(bits); err != nil {
					return Done{}, err
				}
			}
			tag, err := store.CreateTag(ctx, model.Tag{
				Name: get[string](g, "tag"), Step: get[int64](g, "step"), MaxID: get[int64](g, "maxId"),
				Description: get[string](g, "description"), Numbering: numbering,
			})
			return Done{After: newTagItem(tag)}, err
		},
		change: func(ctx context.Context, name string, g Given, _ string) (Done, error) {
			next := pointer[int64](g, "maxId")
			if number, said := g["after"].(string); said && next != nil {
				return Done{}, fmt.Errorf("%w: give `maxId` or `after`, not both", model.ErrInvalidArgument)
			} else if said {
				tag, err := store.Tag(ctx, name)
				if err != nil {
					return Done{}, err
				}
				id, err := tag.ID(number)
				if err != nil {
					return Done{}, err
				}
				id++
				next = &id
			}
			before, after, err := store.ChangeTag(ctx, name, model.TagChange{
				Step: pointer[int64](g, "step"), MaxID: next,
				Description: pointer[string](g, "description"),
			})
			return Done{Before: newTagItem(before), After: newTagItem(after)}, err
		},
	}
}
