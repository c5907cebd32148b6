package admin

import (
	"context"
	"fmt"

	"shardid/model"
)

// Apps lists the apps in order. Errors: *model.StoreError.
func (s *Service) Apps(ctx context.Context) ([]model.AppSummary, error) {
	return s.opts.Store.Apps(ctx)
}

// App reads one app. Errors: model.ErrUnknownApp, *model.StoreError.
func (s *Service) App(ctx context.Context, id uint8) (model.AppSummary, error) {
	return s.opts.Store.App(ctx, id)
}

// CreateApp provisions the shards of an app, all or none. Errors:
// model.ErrInvalidArgument, ErrAppExists, ErrRefused for a limit below what an app of
// this ID had handed out before it was deleted, *model.StoreError.
func (s *Service) CreateApp(ctx context.Context, by Actor, app model.App) (model.AppSummary, Effect, error) {
	within, cancel := change(ctx)
	defer cancel()
	made, err := s.opts.Store.CreateApp(within, app)
	s.audit(ctx, by, event{
		action: "app.create", target: appTarget(app.ID), err: err,
		asked: appValue(model.AppSummary{App: app, Shards: model.Shards}), after: appValue(made),
	})
	if err != nil {
		return model.AppSummary{}, Effect{}, err
	}
	effect := s.takeOver(ctx, s.opts.Queue)
	effect.New = true
	return made, effect, nil
}

// ChangeApp changes an app. Errors: model.ErrUnknownApp, ErrInvalidArgument,
// ErrRefused for what would let an ID repeat, *model.StoreError.
func (s *Service) ChangeApp(ctx context.Context, by Actor, id uint8, c model.AppChange) (model.AppSummary, Effect, error) {
	if c.Empty() {
		return model.AppSummary{}, Effect{}, fmt.Errorf("%w: nothing is to be changed: name, description, step, maxLimitId, limitPolicy, minIndex or maxRate must be given", model.ErrInvalidArgument)
	}
	within, cancel := change(ctx)
	defer cancel()
	before, after, err := s.opts.Store.ChangeApp(within, id, c)
	s.audit(ctx, by, event{
		action: "app.change", target: appTarget(id), err: err,
		asked: changeValue(c), before: appValue(before), after: appValue(after),
	})
	if err != nil {
		return model.AppSummary{}, Effect{}, err
	}
	return after, s.takeOver(ctx, s.opts.Queue), nil
}

// DeleteApp deletes the app that has that name, and answers what it was. What it
// handed out is remembered: should it come back, it goes on above that. Errors:
// model.ErrUnknownApp, ErrInvalidArgument for another name, *model.StoreError.
func (s *Service) DeleteApp(ctx context.Context, by Actor, id uint8, name string) (model.AppSummary, Effect, error) {
	within, cancel := change(ctx)
	defer cancel()
	was, err := s.opts.Store.DeleteApp(within, id, name)
	s.audit(ctx, by, event{action: "app.delete", target: appTarget(id), err: err, before: appValue(was)})
	if err != nil {
		return model.AppSummary{}, Effect{}, err
	}
	return was, s.takeOver(ctx, s.opts.Queue), nil
}

func appTarget(id uint8) string { return fmt.Sprintf("app %d", id) }
