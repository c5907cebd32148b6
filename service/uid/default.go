package uid

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/background"
)

// newByClock makes the generator of default mode for a layout that was checked: the second of an ID is
// the clock's, and one that is used up is used up for good.
func newByClock(layout model.UIDLayout, clock idgen.Clock) *idgen.Generator {
	g, err := idgen.New(idgen.Options{
		Unit: time.Second, Epoch: layout.Epoch.Unix(), TimeBits: layout.TimeBits,
		WorkerBits: layout.WorkerBits, SeqBits: layout.SeqBits, Now: clock,
	})
	if err != nil {
		panic(err)
	}
	return g
}

// nextByClock is Next in default mode. A batch that needs several seconds is taken
// second by second; if it cannot be completed, what it took is a gap.
func (s *Service) nextByClock(ctx context.Context, count int, dst []int64) ([]int64, error) {
	end := len(dst) + count
	ids, wait, err := s.takeByClock(end, dst)
	if wait > 0 {
		ids, err = s.awaitSeconds(ctx, end, wait, ids)
	}
	if err != nil {
		s.stats.dropped.Add(int64(len(ids) - len(dst)))
		return dst, err
	}
	s.stats.issued.Add(int64(count))
	return ids, nil
}

// takeByClock appends IDs until there are end of them, or says how long the next second is away.
func (s *Service) takeByClock(end int, ids []int64) (_ []int64, wait time.Duration, err error) {
	for len(ids) < end {
		g := s.grant.Load()
		if g == nil {
			return ids, 0, s.noGrant()
		}
		first, got, wait, err := g.byClock.Take(end - len(ids))
		if wait > 0 || err != nil {
			return ids, wait, s.explainByClock(g, err)
		}
		for id := first; id < first+int64(got); id++ {
			ids = append(ids, id)
		}
	}
	return ids, 0, nil
}

// awaitSeconds goes on with takeByClock in the seconds that follow, the first of them after a wait.
func (s *Service) awaitSeconds(ctx context.Context, end int, wait time.Duration, ids []int64) (_ []int64, err error) {
	ctx, cancel := s.patience(ctx)
	defer cancel()
	for wait > 0 {
		if !background.Pause(ctx, wait, nil) {
			used := fmt.Errorf("%w: all %d IDs of the second are used up",
				model.ErrRingEmpty, s.opts.Layout.Sequences())
			return ids, s.gaveUp(ctx, used)
		}
		ids, wait, err = s.takeByClock(end, ids)
	}
	return ids, err
}

// explainByClock is the error of a caller for one of the generator.
func (s *Service) explainByClock(g *grant, err error) error {
	var r *idgen.Refusal
	if !errors.As(err, &r) {
		return err
	}
	if _, why := g.second(r.Now); why != nil {
		return why // the time does not fit, or the mark is used up
	}
	return fmt.Errorf("%w by %d s since the last ID: wait, or set the clock", model.ErrClockBack, r.Bound-r.Now)
}
