package admin

import (
	"context"
	"log/slog"

	"shardid/model"
)

// SpaceEffect says for people from when on a change of a space counts: replicas read the spaces
// with each heartbeat.
const SpaceEffect = "on every replica within 3 s"

// CreateSpace adds a space of sequences. One that was deleted comes back above its numbers.
// Errors: model.ErrInvalidArgument, ErrSpaceExists, ErrRefused just after the space was deleted,
// *model.StoreError.
func (s *Service) CreateSpace(ctx context.Context, by Actor, space model.Space) (model.Space, error) {
	made, _, err := run(ctx, s, by, nil, event{action: "space.create", target: "space " + space.Name, asked: spaceValue(space)},
		func(ctx context.Context, e *event) (model.Space, error) {
			made, err := s.opts.Store.CreateSpace(ctx, space)
			e.after = spaceValue(made)
			return made, err
		})
	return made, err
}

// ChangeSpace has the sections of a space take another step at once. Errors:
// model.ErrUnknownSpace, ErrInvalidArgument, *model.StoreError.
func (s *Service) ChangeSpace(ctx context.Context, by Actor, name string, step int64) (model.Space, error) {
	asked := slog.GroupValue(slog.Int64("step", step))
	changed, _, err := run(ctx, s, by, nil, event{action: "space.change", target: "space " + name, asked: asked},
		func(ctx context.Context, e *event) (model.Space, error) {
			before, after, err := s.opts.Store.ChangeSpace(ctx, name, step)
			e.before, e.after = spaceValue(before), spaceValue(after)
			return after, err
		})
	return changed, err
}

// DeleteSpace deletes a space whose name is given twice, and answers what it was. Its numbers are
// remembered, should it come back. Errors: model.ErrUnknownSpace, ErrInvalidArgument for two
// names, ErrRefused while it is not known what it has given, *model.StoreError.
func (s *Service) DeleteSpace(ctx context.Context, by Actor, name, confirm string) (model.Space, error) {
	was, _, err := run(ctx, s, by, nil, event{action: "space.delete", target: "space " + name},
		func(ctx context.Context, e *event) (model.Space, error) {
			if err := confirmed("the space's name", name, confirm); err != nil {
				return model.Space{}, err
			}
			was, err := s.opts.Store.DeleteSpace(ctx, name)
			e.before = spaceValue(was)
			if err == nil && s.opts.Forget != nil {
				if err := s.opts.Forget(ctx, was); err != nil { // it is deleted all the same
					s.opts.Log.Warn("what Redis keeps of the space was not dropped: it takes memory until then", "space", name, "error", err)
				}
			}
			return was, err
		})
	return was, err
}

func spaceValue(s model.Space) slog.Value {
	return slog.GroupValue(slog.Int("sections", s.Sections), slog.Int64("step", s.Step))
}
