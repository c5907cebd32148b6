package segment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shardid/model"
)

// Numbers issues count business numbers of a tag that has a pattern, and appends them to
// dst: all of them or, with an error, none. Each is issued as an ID by Tag, which holds what
// follows; a block of a period that is over is given up.
//
// Errors: those of Next, and model.ErrInvalidArgument for a tag without a pattern.
func (s *Service) Numbers(ctx context.Context, tag string, count int, dst []string) ([]string, error) {
	t := s.inUse(tag)
	if t == nil {
		var err error
		if t, err = s.find(ctx, tag); err != nil {
			return dst, err
		}
	}
	if t.numbers == nil {
		return dst, fmt.Errorf("%w: tag %q has no pattern", model.ErrInvalidArgument, tag)
	}
	if err := t.expire(s.opts.Now()); err != nil {
		return dst, err
	}
	ids, err := t.many(ctx, count, make([]int64, 0, count))
	if err != nil {
		return dst, err
	}
	now := s.opts.Now()
	for _, id := range ids {
		dst = append(dst, string(t.numbers.Append(nil, id, now)))
	}
	return dst, nil
}

// plain refuses a tag whose IDs are texts.
func (t *Tag) plain() error {
	if t.numbers == nil {
		return nil
	}
	return fmt.Errorf("%w: the IDs of tag %q are texts such as %s: ask for them at /v1/segment/{tag}/ids without ranges and format, or with LPOP",
		model.ErrPattern, t.name, t.numbers.Pattern)
}

// expire gives up what is held of periods that are over. A clock that goes back gives up
// nothing. Errors: model.ErrTimeExhausted.
func (t *Tag) expire(now time.Time) error {
	period, err := t.numbers.Period(now)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	over := func(b *block) bool { return b.length > 0 && t.numbers.PeriodOf(b.first) < period }
	if over(t.current.Load()) {
		left, used := t.current.Swap(newBlock(0, 0, 0, model.Region{})).close()
		t.issued += used
		t.svc.stats.wasted.Add(left)
		t.previous = nil
	}
	t.ahead = slices.DeleteFunc(t.ahead, func(b *block) bool {
		if !over(b) {
			return false
		}
		t.aheadIDs -= b.length
		t.svc.stats.wasted.Add(b.length)
		return true
	})
	return nil
}

// late says whether a segment is of a period that is over. Its load began before.
func (t *Tag) late(s model.TagSegment) bool {
	if t.numbers == nil {
		return false
	}
	period, err := t.numbers.Period(t.svc.opts.Now())
	return err != nil || t.numbers.PeriodOf(s.First) < period
}
