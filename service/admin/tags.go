package admin

import (
	"context"
	"fmt"
	"log/slog"

	"shardid/model"
)

// Tags lists the tags by name. Errors: *model.StoreError.
func (s *Service) Tags(ctx context.Context) ([]model.Tag, error) { return s.opts.Store.Tags(ctx) }

// Tag reads one tag. Errors: model.ErrUnknownTag, model.ErrInvalidArgument for a row
// that cannot be used, *model.StoreError.
func (s *Service) Tag(ctx context.Context, name string) (model.Tag, error) {
	return s.opts.Store.Tag(ctx, name)
}

// CreateTag adds a tag, above what one of the name had handed out before it was
// deleted. Errors: model.ErrInvalidArgument, ErrTagExists, *model.StoreError.
func (s *Service) CreateTag(ctx context.Context, by Actor, tag model.Tag) (model.Tag, Effect, error) {
	within, cancel := change(ctx)
	defer cancel()
	made, err := s.opts.Store.CreateTag(within, tag)
	s.audit(ctx, by, event{action: "tag.create", target: tagTarget(tag.Name), err: err, asked: tagValue(tag), after: tagValue(made)})
	if err != nil {
		return model.Tag{}, Effect{}, err
	}
	effect := s.takeOver(ctx, s.opts.Segment)
	effect.New = true
	return made, effect, nil
}

// ChangeTag changes a tag. Errors: model.ErrUnknownTag, ErrInvalidArgument, ErrRefused
// for a max_id that would go down, *model.StoreError.
func (s *Service) ChangeTag(ctx context.Context, by Actor, name string, c model.TagChange) (model.Tag, Effect, error) {
	if c.Empty() {
		return model.Tag{}, Effect{}, fmt.Errorf("%w: nothing is to be changed: step, maxId, description or maxRate must be given", model.ErrInvalidArgument)
	}
	within, cancel := change(ctx)
	defer cancel()
	before, after, err := s.opts.Store.ChangeTag(within, name, c)
	s.audit(ctx, by, event{
		action: "tag.change", target: tagTarget(name), err: err,
		asked: tagChangeValue(c), before: tagValue(before), after: tagValue(after),
	})
	if err != nil {
		return model.Tag{}, Effect{}, err
	}
	return after, s.takeOver(ctx, s.opts.Segment), nil
}

// DeleteTag deletes a tag whose name is given twice, and answers what it was. What it
// handed out is remembered: should it come back, it goes on above that. Errors:
// model.ErrUnknownTag, ErrInvalidArgument for two names, *model.StoreError.
func (s *Service) DeleteTag(ctx context.Context, by Actor, name, confirm string) (was model.Tag, effect Effect, err error) {
	within, cancel := change(ctx)
	defer cancel()
	if name == confirm {
		was, err = s.opts.Store.DeleteTag(within, name)
	} else {
		err = fmt.Errorf("%w: confirm the deletion with the tag's name, which is %q", model.ErrInvalidArgument, name)
	}
	s.audit(ctx, by, event{action: "tag.delete", target: tagTarget(name), err: err, before: tagValue(was)})
	if err != nil {
		return model.Tag{}, Effect{}, err
	}
	return was, s.takeOver(ctx, s.opts.Segment), nil
}

func tagTarget(name string) string { return "tag " + name }

// FreeWorker takes a worker ID from the address that has it, once all its bounds have
// passed. Errors: model.ErrInvalidArgument, ErrRefused, *model.StoreError.
func (s *Service) FreeWorker(ctx context.Context, by Actor, workerID int, address string) (model.WorkerEntry, error) {
	within, cancel := change(ctx)
	defer cancel()
	was, err := s.opts.Workers.Free(within, workerID, address)
	s.audit(ctx, by, event{action: "worker.free", target: fmt.Sprintf("worker ID %d", workerID), err: err, before: workerValue(was)})
	if err != nil {
		return model.WorkerEntry{}, err
	}
	return was, nil
}

// Confirm runs what an operator confirms about a target, and says how much had waited
// for that. Errors: those of confirm.
func (s *Service) Confirm(ctx context.Context, by Actor, target string, confirm func(context.Context) (int64, error)) (int64, error) {
	within, cancel := change(ctx)
	defer cancel()
	waited, err := confirm(within)
	s.audit(ctx, by, event{action: "confirm", target: target, err: err, after: slog.GroupValue(slog.Int64("confirmed", waited))})
	return waited, err
}
