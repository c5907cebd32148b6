package observe

import (
	"context"

	"shardid/model"
	"shardid/service/sequence"
)

type sections struct{ observed[sequence.Allocator] }

// Sections decorates a store of sections.
func (s *Stores) Sections(store string, next sequence.Allocator) sequence.Allocator {
	return &sections{decorate(s, store, next, "allocate_sections", "renew_fence")}
}

func (d *sections) AllocateSections(ctx context.Context, reqs []model.SectionRequest, place string, sure bool) []model.SectionGrant {
	ctx, c := d.begin(ctx, "allocate_sections", "sections allocate", attr{listsKey, len(reqs)})
	return finishEach(c, d.next.AllocateSections(ctx, reqs, place, sure), func(g *model.SectionGrant) error { return g.Err })
}

func (d *sections) RenewFence(ctx context.Context, servers []string, place string) (model.Fence, error) {
	ctx, c := d.begin(ctx, "renew_fence", "fence renew", attr{countKey, len(servers)})
	f, err := d.next.RenewFence(ctx, servers, place)
	return f, c.finish(err)
}

type sequences struct {
	sequence.Store
	observed[sequence.Store]
}

// Sequences decorates a store of sequences.
func (s *Stores) Sequences(store string, next sequence.Store) sequence.Store {
	return &sequences{next, decorate(s, store, next, "next", "sections_state", "sections_push")}
}

func (d *sequences) Next(ctx context.Context, asks []model.SectionAsk) []model.SectionAnswer {
	ctx, c := d.begin(ctx, "next", "sequences next", attr{listsKey, len(asks)})
	return finishEach(c, d.next.Next(ctx, asks), func(a *model.SectionAnswer) error { return a.Err })
}

func (d *sequences) State(ctx context.Context, keys []model.SectionKey) []model.SectionState {
	ctx, c := d.begin(ctx, "sections_state", "sections state", attr{listsKey, len(keys)})
	return finishEach(c, d.next.State(ctx, keys), func(s *model.SectionState) error { return s.Err })
}

func (d *sequences) Push(ctx context.Context, pushes []model.SectionPush) []error {
	ctx, c := d.begin(ctx, "sections_push", "sections push", attr{listsKey, len(pushes)})
	return finishEach(c, d.next.Push(ctx, pushes), itself)
}
