package segment

import (
	"context"
	"fmt"
	"time"

	"shardid/client/hold"
	"shardid/model"
)

// Numbers issues count business numbers, 1…model.MaxBatch, of a tag that has a pattern, and appends them to
// dst: all of them or, with an error, none. What a tag holds of a period that is over is given up.
//
// Errors: those of Next, and model.ErrInvalidArgument for a tag without a pattern.
func (s *Service) Numbers(ctx context.Context, tag string, count int, dst []string) ([]string, error) {
	t, err := s.findTag(ctx, tag)
	if err != nil {
		return dst, err
	}
	if t.numbers == nil {
		return dst, fmt.Errorf("%w: tag %q has no pattern", model.ErrInvalidArgument, tag)
	}
	var ids []int64
	for {
		period, err := t.dropPast(s.opts.Now())
		if err == nil {
			ids, err = t.takeIDs(ctx, count, ids[:0])
		}
		if err != nil {
			return dst, err
		}
		if t.numbers.PeriodOf(ids[0]) >= period {
			break
		}
		t.mu.Lock()
		t.beside -= int64(len(ids)) // they came while the period began
		t.mu.Unlock()
		s.stats.wasted.Add(int64(len(ids)))
	}
	now := s.opts.Now()
	for _, id := range ids {
		dst = append(dst, string(t.numbers.Append(nil, id, now)))
	}
	return dst, nil
}

// textsOnly is the refusal of a tag whose IDs are texts.
func (t *Tag) textsOnly() error {
	return fmt.Errorf("%w: %w: the IDs of tag %q are texts such as %s",
		model.Do("ask at /v1/segment/{tag}/ids without ranges and format, or with LPOP"), model.ErrPattern, t.name,
		t.numbers.Pattern)
}

// dropPast gives up what is held of periods that are over, and says which one is not. A clock that goes
// back gives up nothing. Errors: model.ErrTimeExhausted.
func (t *Tag) dropPast(now time.Time) (period int64, err error) {
	if period, err = t.numbers.Period(now); err != nil {
		return 0, err
	}
	t.pool.Drop(func(r hold.Run) hold.Run {
		if t.numbers.PeriodOf(r.First) < period {
			r.Count = 0
		}
		return r
	})
	return period, nil
}
