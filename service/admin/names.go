package admin

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"shardid/model"
)

// What a name has that says nothing else: the layout of Twitter's snowflakes, whose epoch is
// in Unix milliseconds.
const (
	DefaultEpochMs    = 1288834974657
	DefaultWorkerBits = 10
	DefaultSeqBits    = 12
)

// CreateName adds a name of worker IDs. It counts on every replica at once. One that was deleted
// comes back with its layout, and its worker IDs go on above their last leases. Errors:
// model.ErrInvalidArgument, ErrNameExists, ErrRefused for the replicas' own name, and for another
// layout than the one of a deleted name, *model.StoreError.
func (s *Service) CreateName(ctx context.Context, by Actor, name model.Name) (model.Name, error) {
	made, _, err := run(ctx, s, by, nil, event{action: "name.create", target: "name " + name.Name, asked: nameValue(name)},
		func(ctx context.Context, e *event) (model.Name, error) {
			if name.Name == s.opts.OwnName {
				return model.Name{}, fmt.Errorf("%w: %q is snowflake.name, whose worker IDs belong to the replicas: choose another name", model.ErrRefused, name.Name)
			}
			made, err := s.opts.Store.CreateName(ctx, name)
			e.after = nameValue(made)
			return made, err
		})
	return made, err
}

// ChangeName gives a name another hold. A shorter one counts for leases that are granted or
// renewed from now on, a longer one a minute later. Errors: model.ErrUnknownName,
// ErrInvalidArgument, *model.StoreError.
func (s *Service) ChangeName(ctx context.Context, by Actor, name string, hold time.Duration) (model.NameUse, error) {
	asked := slog.GroupValue(slog.String("hold", hold.String()))
	changed, _, err := run(ctx, s, by, nil, event{action: "name.change", target: "name " + name, asked: asked},
		func(ctx context.Context, e *event) (model.NameUse, error) {
			before, after, err := s.opts.Store.ChangeName(ctx, name, hold)
			e.before, e.after = nameValue(before), nameValue(after.Name)
			return after, err
		})
	return changed, err
}

// DeleteName deletes a name that is given twice, and answers what it was. Its layout and its
// leases are remembered, should it come back. Errors: model.ErrUnknownName, ErrInvalidArgument
// for two names, ErrRefused while a lease lives, *model.StoreError.
func (s *Service) DeleteName(ctx context.Context, by Actor, name, confirm string) (model.Name, error) {
	was, _, err := run(ctx, s, by, nil, event{action: "name.delete", target: "name " + name},
		func(ctx context.Context, e *event) (model.Name, error) {
			if err := confirmed("the name", name, confirm); err != nil {
				return model.Name{}, err
			}
			was, err := s.opts.Store.DeleteName(ctx, name)
			e.before = nameValue(was)
			return was, err
		})
	return was, err
}
