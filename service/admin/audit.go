package admin

import (
	"context"
	"errors"
	"log/slog"

	"shardid/model"
)

// audit writes the one line about a call.
func (s *Service) audit(ctx context.Context, by Actor, action, target string, asked Given, d done, err error) {
	attrs := []slog.Attr{slog.String("who", by.Name), slog.String("action", action), slog.String("target", target)}
	add := func(key string, value any) { attrs = append(attrs, slog.Any(key, value)) }
	if by.Remote != "" {
		add("remote", by.Remote)
	}
	if by.RequestID != "" {
		add("request_id", by.RequestID)
	}
	if asked != nil {
		add("asked", asked)
	}
	if err == nil && d.before != nil {
		add("before", d.before)
	}
	if err == nil && d.after != nil {
		add("after", d.after)
	}
	add("outcome", outcome(err))
	if err != nil {
		add("error", err.Error())
	}
	s.opts.Log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "audit", attrs...)
}

// outcome is that of a call with an error: done, refused or failed.
func outcome(err error) string {
	if err == nil {
		return "done"
	}
	for _, refusal := range []error{
		model.ErrInvalidArgument, model.ErrRefused, model.ErrExists,
		model.ErrUnknownApp, model.ErrUnknownTag, model.ErrUnknownName, model.ErrUnknownSpace,
	} {
		if errors.Is(err, refusal) {
			return "refused"
		}
	}
	return "failed"
}
