package uid

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// fillRetry is the pause after a fill that failed. A mark that was raised ends it.
const fillRetry = 100 * time.Millisecond

// nextFromRing is Next in cached mode.
func (s *Service) nextFromRing(ctx context.Context, count int, dst []int64) ([]int64, error) {
	if s.stats.nodes.Load() == 0 {
		return dst, s.noGrant()
	}
	if count <= s.piece() {
		if ids, ok := s.ring.TakeN(count, dst); ok {
			return ids, nil
		}
		if s.opts.RejectTake == TakeRefuse {
			return dst, s.dry()
		}
	}
	return s.await(ctx, count, dst)
}

// piece is the most IDs that a filler of whole seconds serves at once for sure.
func (s *Service) piece() int { return int(s.ring.Cap() - s.opts.Layout.Sequences()) }

// await takes a batch in pieces that the ring can hold. If it cannot be completed,
// what it took is a gap.
func (s *Service) await(ctx context.Context, count int, dst []int64) ([]int64, error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	ids, end := dst, len(dst)+count
	for len(ids) < end {
		more, err := s.ring.Wait(ctx, min(s.piece(), end-len(ids)), ids)
		if err != nil {
			s.stats.dropped.Add(int64(len(ids) - len(dst)))
			return dst, s.gaveUp(ctx, s.dry())
		}
		ids = more
	}
	return ids, nil
}

// dry says why the ring is empty.
func (s *Service) dry() error {
	g := s.grant.Load()
	if g == nil {
		return s.noGrant()
	}
	if err := g.fillErr.Load(); err != nil {
		return fmt.Errorf("%w and cannot be filled: %w", model.ErrRingEmpty, *err)
	}
	if g.last.Load() == 0 {
		return fmt.Errorf("%w: filling the ring for the first time", model.ErrNotReady)
	}
	return fmt.Errorf("%w: IDs are asked for faster than it is filled: try again, or set uid.reject_take to wait", model.ErrRingEmpty)
}

// fillLoop keeps the ring filled until ctx ends. Whatever happens in one fill, there
// is a next.
func (s *Service) fillLoop(ctx context.Context, g *grant) {
	var tick <-chan time.Time
	if s.opts.ScheduleInterval > 0 {
		t := time.NewTicker(s.opts.ScheduleInterval)
		defer t.Stop()
		tick = t.C
	}
	for ctx.Err() == nil {
		if err := s.fill(ctx, g); err != nil {
			background.Pause(ctx, fillRetry, g.raised)
			continue
		}
		select {
		case <-s.ring.Low():
		case <-tick:
		case <-ctx.Done():
		}
	}
}

// fill fills the ring. It returns an error when there is room that it could not
// fill, which is then the answer to callers that find nothing.
func (s *Service) fill(ctx context.Context, g *grant) error {
	err := s.guard("fill the ring", func() error { return s.fillRing(ctx, g) })
	if ctx.Err() == nil {
		s.filled(g, err)
	}
	return err
}

func (s *Service) fillRing(ctx context.Context, g *grant) error {
	for ctx.Err() == nil {
		if s.opts.RejectPut == PutBlock {
			if err := s.ring.AwaitRoom(ctx, s.opts.Layout.Sequences()); err != nil {
				return err
			}
		}
		if put, err := s.putSecond(g); err != nil || !put {
			return err
		}
		s.filled(g, nil)
	}
	return ctx.Err()
}

// putSecond puts all IDs of the next second into the ring; false means that it is
// full. The second counts as used before its IDs are there, so that nothing that
// happens in between lets it be put again.
func (s *Service) putSecond(g *grant) (put bool, err error) {
	count := s.opts.Layout.Sequences()
	second, err := s.nextSecond(g)
	if err != nil {
		if s.ring.Cap()-s.ring.Len() < count {
			err = nil
		}
		return false, err
	}
	before := g.last.Swap(second)
	if s.ring.Put(s.opts.Layout.Compose(second, g.node.WorkerID, 0), count) {
		return true, nil
	}
	g.last.Store(before) // the ring took none of its IDs
	return false, nil
}

// nextSecond chooses the next Unix second for the ring: the first is the clock's, and the
// others count up from it. Errors: those of grant.second.
func (s *Service) nextSecond(g *grant) (int64, error) {
	last := g.last.Load()
	if last == 0 {
		return g.second(max(g.after+1, s.opts.Now().Unix()))
	}
	return g.second(last + 1)
}

// filled notes how a fill went. A mark that is used up is the keeper's to report.
func (s *Service) filled(g *grant, err error) {
	s.markOpened()
	if err == nil {
		g.fillErr.Store(nil)
		if s.fillFails.Swap(false) {
			s.opts.Reporter.Report(ConditionFill, nil)
		}
		return
	}
	g.fillErr.Store(&err)
	if !errors.Is(err, model.ErrNoLease) {
		s.fillFails.Store(true)
		s.opts.Reporter.Report(ConditionFill, err)
	}
}
