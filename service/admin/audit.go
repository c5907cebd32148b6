package admin

import (
	"context"
	"log/slog"

	"shardid/service/issuer"
)

// audit writes the one line about a call.
func (s *Service) audit(ctx context.Context, by Actor, action, target string, asked Given, d Done, err error) {
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
	if err == nil && d.Before != nil {
		add("before", d.Before)
	}
	if err == nil && d.After != nil {
		add("after", d.After)
	}
	add("outcome", outcome(err))
	if err != nil {
		add("error", err.Error())
	}
	s.opts.Log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "audit", attrs...)
}

// outcome is that of a call with an error: done, refused or failed.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case issuer.Failed(issuer.Code(err)):
		return "failed"
	}
	return "refused"
}
