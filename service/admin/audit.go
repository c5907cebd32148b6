package admin

import (
	"context"
	"errors"
	"log/slog"

	"shardid/model"
)

// event is one call as the log has it. A value without attributes is left out.
type event struct {
	action, target       string
	asked, before, after slog.Value
	err                  error
}

// audit writes the one line about a call. Handlers leave zero attributes out.
func (s *Service) audit(ctx context.Context, by Actor, e event) {
	attrs := []slog.Attr{slog.String("who", by.Name), slog.String("action", e.action), slog.String("target", e.target)}
	if by.Remote != "" {
		attrs = append(attrs, slog.String("remote", by.Remote))
	}
	if by.RequestID != "" {
		attrs = append(attrs, slog.String("request_id", by.RequestID))
	}
	if e.err != nil {
		attrs = append(attrs, group("asked", e.asked), slog.String("outcome", outcome(e.err)), slog.String("error", e.err.Error()))
	} else {
		attrs = append(attrs, group("before", e.before), group("after", e.after), slog.String("outcome", "done"))
	}
	s.opts.Log.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "audit", attrs...)
}

func group(key string, v slog.Value) (a slog.Attr) {
	if v.Kind() == slog.KindGroup {
		a = slog.Attr{Key: key, Value: v}
	}
	return a
}

// outcome is that of an error: refused or failed.
func outcome(err error) string {
	for _, refusal := range []error{
		model.ErrInvalidArgument, model.ErrRefused, model.ErrAppExists, model.ErrTagExists, model.ErrNameExists, model.ErrSpaceExists,
		model.ErrUnknownApp, model.ErrUnknownTag, model.ErrUnknownName, model.ErrUnknownSpace,
	} {
		if errors.Is(err, refusal) {
			return "refused"
		}
	}
	return "failed"
}

func appValue(a model.AppSummary) slog.Value {
	return slog.GroupValue(
		slog.String("name", a.Name), slog.String("description", a.Description), slog.Int64("step", a.Step),
		slog.Int64("max_limit_id", a.Limit.MaxID), slog.String("limit_policy", string(a.Limit.Policy)),
		slog.Bool("scramble", a.Scramble),
		slog.Int("shards", a.Shards), slog.Int64("highest_index", a.HighestIndex), freshValue(a.Fresh))
}

func tagValue(t model.Tag) slog.Value {
	values := []slog.Attr{slog.Int64("max_id", t.MaxID), slog.Int64("step", t.Step), slog.String("description", t.Description)}
	values = append(values, freshValue(t.Fresh))
	if t.Pattern != "" {
		values = append(values, slog.String("pattern", t.Pattern), slog.String("reset", string(t.Reset)),
			slog.String("zone", t.Zone), slog.String("overflow", string(t.Overflow)))
	}
	return slog.GroupValue(values...)
}

// freshValue is the operator's word that something new was never used; handlers leave none out.
func freshValue(fresh string) slog.Attr {
	if fresh == "" {
		return slog.Attr{}
	}
	return slog.String("fresh", fresh)
}

func nameValue(n model.Name) slog.Value {
	return slog.GroupValue(
		slog.Int64("epoch_ms", n.EpochMs), slog.Uint64("worker_bits", uint64(n.WorkerBits)), slog.Uint64("seq_bits", uint64(n.SeqBits)),
		slog.String("hold", n.Hold.String()))
}

func workerValue(w model.WorkerEntry) slog.Value {
	return slog.GroupValue(slog.String("address", w.Address), slog.Int64("reserved_until", w.Reserved))
}

func changeValue(c model.AppChange) slog.Value {
	return slog.GroupValue(
		maybe("name", c.Name), maybe("description", c.Description), maybe("step", c.Step),
		maybe("max_limit_id", c.MaxLimitID), maybe("limit_policy", c.LimitPolicy),
		maybe("min_index", c.MinIndex), maybe("max_rate", c.MaxRate))
}

func tagChangeValue(c model.TagChange) slog.Value {
	return slog.GroupValue(
		maybe("max_id", c.MaxID), maybe("step", c.Step), maybe("description", c.Description), maybe("max_rate", c.MaxRate))
}

// maybe is the zero attribute, which handlers leave out, when there is no value.
func maybe[T any](key string, value *T) slog.Attr {
	if value == nil {
		return slog.Attr{}
	}
	return slog.Any(key, *value)
}
