package admin

import (
	"context"

	"shardid/model"
)

// SpaceKind are the spaces of sequences.
var SpaceKind = Kind{One: "space", Many: "spaces", Path: "sequences", Fields: []Field{
	{Name: "space", Usage: "`name`, at most 64 letters, digits, dots, hyphens and underscores", Value: text, Add: Must},
	{Name: "sections", Usage: "`number` of sections over which the keys are spread, each a row of the database",
		Value: number(1, model.MaxSections), Default: int64(model.DefaultSections), Add: May},
	{Name: "step", Usage: "`numbers` that a section takes from the database at once",
		Value: number(1, model.MaxSequenceStep), Default: int64(model.DefaultSequenceStep), Add: May, Set: Must},
}}

// SpaceItem is a space as it is shown.
type SpaceItem struct {
	Space    string `json:"space"`
	Sections int    `json:"sections"`
	Step     int64  `json:"step"`
	*SpaceUse
}

// SpaceUse is how much of a space has been used; nil after a change. Highest is at most 2^53-1.
type SpaceUse struct {
	Used    int   `json:"used"`    // sections that have given numbers
	Highest int64 `json:"highest"` // what one of them has taken
}

// newSpaceItem shows a space with how much of it has been used.
func newSpaceItem(u model.SpaceUse) SpaceItem {
	item := changedSpace(u.Space)
	item.SpaceUse = &SpaceUse{u.Used, u.Highest}
	return item
}

func changedSpace(s model.Space) SpaceItem {
	return SpaceItem{Space: s.Name, Sections: s.Sections, Step: s.Step}
}

// Spaces are those of sequences.
func (s *Service) Spaces() Resource {
	store := s.opts.Store
	return Resource{
		Kind: SpaceKind, service: s, check: model.CheckSpace, counts: withBeat,
		list:   listAll(store.Spaces, func(u model.SpaceUse) string { return u.Name }, newSpaceItem),
		show:   shower(store.Space, newSpaceItem),
		remove: remover(SpaceKind, s.deleteSpace, changedSpace),
		create: func(ctx context.Context, g Given) (Done, error) {
			made, err := store.CreateSpace(ctx, model.Space{
				Name: get[string](g, "space"), Sections: int(get[int64](g, "sections")), Step: get[int64](g, "step"),
			})
			return Done{After: changedSpace(made)}, err
		},
		change: func(ctx context.Context, name string, g Given, _ string) (Done, error) {
			before, after, err := store.ChangeSpace(ctx, name, get[int64](g, "step"))
			return Done{Before: changedSpace(before), After: changedSpace(after)}, err
		},
	}
}

// deleteSpace deletes a space, and drops what Redis keeps of it.
func (s *Service) deleteSpace(ctx context.Context, name string) (model.Space, error) {
	was, err := s.opts.Store.DeleteSpace(ctx, name)
	if err == nil && s.opts.Forget != nil {
		if err := s.opts.Forget(ctx, was); err != nil { // it is deleted all the same
			s.opts.Log.Warn("what Redis keeps of the space takes memory: it could not be dropped",
				"space", name, "error", err)
		}
	}
	return was, err
}
