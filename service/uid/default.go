package uid

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// errSecondUsed: all sequence numbers of the second have been issued.
var errSecondUsed = errors.New("the second is used up")

// takeSeconds issues up to n IDs of a Unix second: count of them, first and those after
// it. Errors: errSecondUsed, model.ErrClockBack, and those of second.
func (g *grant) takeSeconds(second, n int64) (first, count int64, err error) {
	if _, err = g.second(second); err != nil {
		return 0, 0, err
	}
	relative := second - g.layout.Epoch.Unix()
	for {
		state := g.state.Load()
		if err = g.notBefore(state, relative); err != nil {
			return 0, 0, err
		}
		start := max(state+1, relative<<g.layout.SeqBits)
		if start>>g.layout.SeqBits > relative {
			return 0, 0, errSecondUsed
		}
		seq := start & (g.layout.Sequences() - 1)
		count = min(n, g.layout.Sequences()-seq)
		if g.state.CompareAndSwap(state, start+count-1) {
			return g.layout.Compose(second, g.node.WorkerID, seq), count, nil
		}
	}
}

// notBefore refuses a second, since the epoch, that is before that of a state; the
// error is model.ErrClockBack.
func (g *grant) notBefore(state, relative int64) error {
	if back := state>>g.layout.SeqBits - relative; back > 0 {
		return fmt.Errorf("%w by %d s since the last ID: wait, or set the clock", model.ErrClockBack, back)
	}
	return nil
}

// readyAt is the error that take would give for a Unix second, but for one that is
// used up.
func (g *grant) readyAt(second int64) error {
	if _, err := g.second(second); err != nil {
		return err
	}
	return g.notBefore(g.state.Load(), second-g.layout.Epoch.Unix())
}

// nextByClock is Next in default mode. A batch that needs several seconds is taken
// second by second; if it cannot be completed, what it took is a gap.
func (s *Service) nextByClock(ctx context.Context, count int, dst []int64) ([]int64, error) {
	end := len(dst) + count
	ids, err := s.takeByClock(end, dst)
	if errors.Is(err, errSecondUsed) {
		ids, err = s.awaitSeconds(ctx, end, ids)
	}
	if err != nil {
		s.stats.dropped.Add(int64(len(ids) - len(dst)))
		return dst, err
	}
	s.stats.issued.Add(int64(count))
	return ids, nil
}

// takeByClock appends IDs until there are end of them or the second is used up.
func (s *Service) takeByClock(end int, ids []int64) ([]int64, error) {
	for len(ids) < end {
		g := s.grant.Load()
		if g == nil {
			return ids, s.noGrant()
		}
		first, count, err := g.takeSeconds(s.opts.Now().Unix(), int64(end-len(ids)))
		if err != nil {
			return ids, err
		}
		for id := first; id < first+count; id++ {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// awaitSeconds goes on with takeByClock in the seconds that follow.
func (s *Service) awaitSeconds(ctx context.Context, end int, ids []int64) ([]int64, error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	err := errSecondUsed
	for errors.Is(err, errSecondUsed) {
		now := s.opts.Now()
		if !background.Pause(ctx, now.Truncate(time.Second).Add(time.Second).Sub(now), nil) {
			return ids, s.gaveUp(ctx, fmt.Errorf("%w: all %d IDs of the second are used up", model.ErrRingEmpty, s.opts.Layout.Sequences()))
		}
		ids, err = s.takeByClock(end, ids)
	}
	return ids, err
}
