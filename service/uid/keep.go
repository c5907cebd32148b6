package uid

import (
	"sync/atomic"
	"time"
)

// A Service is the worker.Generator of its keeper, whose times are Unix ms: those of UIDs are seconds.
//
// How far ahead the mark is kept, in seconds of the IDs' time: enough for an hour by the clock, and for ten minutes
// at the rate at which IDs were used last, so that IDs continue while the database is unreachable. Twice that is
// reserved when less is left.
const (
	leadHour = 3600
	leadRate = 600
)

// term is a worker ID between Begin and End.
type term struct {
	node  int64 // row of WORKER_NODE
	after int64 // IDs carry a later second
	// mark: IDs carry at most this second; the row holds it.
	mark   atomic.Int64
	filled atomic.Bool  // a second of the term was put into the ring
	rate   atomic.Int64 // seconds of the IDs' time used in a second, at least 1
	woke   atomic.Bool  // the keeper was woken, and has not extended the term since

	// Of the keeper's goroutine: where the IDs' time was when the mark was raised last, and when that was, by the
	// monotonic clock.
	raisedFrom int64
	raisedAt   time.Duration
}

// lead is how far the mark is kept ahead.
func (t *term) lead() int64 { return max(leadHour, leadRate*t.rate.Load()) }

// firstWorker is the first worker ID of the region.
func (s *Service) firstWorker() int64 {
	from, _ := s.opts.Region.Workers(s.opts.Layout.WorkerBits)
	return from
}

// Begin implements worker.Generator.
func (s *Service) Begin(worker int, after int64) {
	t := &term{node: int64(worker), after: after / 1000}
	t.rate.Store(1)
	t.mark.Store(t.after)
	if s.ring != nil {
		s.ring.begin(t)
	} else {
		s.clock.Generator.Begin(int(s.firstWorker())+worker, t.after)
	}
	s.term.Store(t)
	s.nodes.Add(1)
	if s.ring != nil && s.opts.ScheduleInterval > 0 {
		s.background.Start(func() {
			for s.background.Sleep(s.opts.ScheduleInterval) {
				s.ring.fillUp()
			}
		})
	}
}

// Extend implements worker.Generator. The trust has no end: as long as the row is not another's, its mark counts, and
// whoever takes it over begins above that.
func (s *Service) Extend(until int64, trust time.Duration) {
	t := s.term.Load()
	if t == nil {
		return
	}
	until /= 1000
	if until > t.mark.Load() {
		_, t.raisedAt = s.opts.Now()
		t.raisedFrom = s.position(t)
	}
	t.mark.Store(until)
	t.woke.Store(false)
	if s.ring != nil {
		s.ring.extend(t)
	} else {
		s.clock.Generator.Extend(until, trust)
	}
}

// End implements worker.Generator.
func (s *Service) End(reason error) {
	s.term.Store(nil)
	if s.ring != nil {
		s.ring.end(reason)
	} else {
		s.clock.Generator.End(reason)
	}
}

// LastIssued implements worker.Generator: in cached mode, the last second that was put into the ring.
func (s *Service) LastIssued() int64 {
	if s.ring != nil {
		return s.ring.last.Load() * 1000
	}
	return s.clock.Generator.LastIssued() * 1000
}

// Reserve is worker.Options.Reserve: what is reserved as long as that lasts, and else what the rate of use calls for.
func (s *Service) Reserve(_, reserved int64) int64 {
	t := s.term.Load()
	if t == nil {
		return reserved
	}
	position := s.position(t)
	if !s.isLow(t, position) {
		return reserved
	}
	if _, now := s.opts.Now(); s.ring != nil && t.raisedFrom > 0 {
		elapsed := max(1, (now - t.raisedAt).Seconds())
		t.rate.Store(max(1, int64(float64(position-t.raisedFrom)/elapsed)))
	}
	return max(reserved, 1000*min(position+2*t.lead(), s.opts.Layout.MaxTime()))
}

// isLow says whether more is to be reserved.
func (s *Service) isLow(t *term, position int64) bool {
	mark := t.mark.Load()
	return mark-position < t.lead() && mark < s.opts.Layout.MaxTime()
}

// put wakes the keeper when IDs up to a second were put into the ring and the mark is to be raised: in a burst it is
// used up before the keeper looks. A keeper whose call fails tries again by itself.
func (s *Service) put(t *term, second int64) {
	if s.isLow(t, second) && !t.woke.Swap(true) {
		s.opts.Keeper.Wake()
	}
}

// position is the second that the mark must stay ahead of: the last one used, and the clock's where that comes next.
func (s *Service) position(t *term) int64 {
	switch now := s.second(); {
	case s.ring == nil:
		return max(s.clock.Generator.LastIssued(), now)
	case t.filled.Load():
		return s.ring.last.Load()
	default:
		return max(s.ring.last.Load(), t.after, now-1)
	}
}
