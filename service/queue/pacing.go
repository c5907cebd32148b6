package queue

import (
	"context"
	"errors"
	"iter"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// maxJitter spreads the replicas that see the same low watermark.
	maxJitter = 20 * time.Millisecond
	// refillRetry is the shortest pause after a failure before the low watermark
	// causes another try. Callers that wait on an empty list try by themselves.
	refillRetry = 200 * time.Millisecond

	// firstLossPause follows a segment that was lost on its way: nobody knows whether the database, or the
	// list, has it. Another loss doubles the pause up to longestLossPause, so that an hour of them costs
	// 360 segments.
	firstLossPause   = 250 * time.Millisecond
	longestLossPause = 10 * time.Second

	// spareShare is the share of the indices that are left, one part in so many, that a segment may have
	// beside what callers wait for, and leastSpare is how many it may have in any case.
	spareShare = 1000
	leastSpare = 8
)

// setbacks is what refills that failed leave behind. Lists of healthy stores have none,
// which saves memory: there are thousands.
type setbacks struct {
	retryAt    time.Time     // until then the low watermark causes no refill
	pauseUntil time.Time     // until then no segment is asked for; refillErr says why
	lossPause  time.Duration // after the last segment that was lost; 0 since one arrived
}

// past returns the setbacks to read. Callers hold mu.
func (l *list) past() setbacks {
	if l.setbacks == nil {
		return setbacks{}
	}
	return *l.setbacks
}

// setback returns the setbacks to write. Callers hold mu.
func (l *list) setback() *setbacks {
	if l.setbacks == nil {
		l.setbacks = &setbacks{}
	}
	return l.setbacks
}

// due are the lists whose refill in the background waits for its turn. Lists of one
// app are used alike and so become low together; were all of them refilled at once,
// none would be done in time.
type due struct {
	mu      sync.Mutex
	lists   []*list
	passing int // goroutines that work on them
}

// refillSoon refills in the background, in its turn, unless that has failed a moment ago.
func (l *list) refillSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.becomeDue()
}

// becomeDue is refillSoon. While another pass has the list it waits for its end, as that
// pass may have seen the list before it was low, or may not refill it. Callers hold mu.
func (l *list) becomeDue() {
	if l.refill != nil {
		l.again = true
		return
	}
	if now, past := time.Now(), l.past(); l.soon || now.Before(past.retryAt) || now.Before(past.pauseUntil) {
		return
	}
	l.soon = true
	d := &l.svc.due
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lists = append(d.lists, l)
	if d.passing < passesAtOnce && l.svc.background.Go(l.svc.refillDue) {
		d.passing++
	}
}

// refillDue refills what is due, until nothing is.
func (s *Service) refillDue() {
	for s.background.Sleep(mathrand.N(maxJitter)) {
		s.due.mu.Lock()
		lists := s.due.lists[:min(len(s.due.lists), passSize)]
		if s.due.lists = s.due.lists[len(lists):]; len(lists) == 0 {
			s.due.lists = nil
			s.due.passing--
			s.due.mu.Unlock()
			return
		}
		s.due.mu.Unlock()
		for pass := range passes(lists) {
			for _, l := range pass {
				l.mu.Lock()
				l.soon = false
				l.mu.Unlock()
			}
			s.refillLists(pass, manner{})
		}
	}
}

// length is that of the list's last segment, about which the next one will have.
func (l *list) length() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.step
}

// passes cuts lists to be refilled into passes, by passSize and passIndices.
func passes(lists []*list) iter.Seq[[]*list] {
	return func(yield func([]*list) bool) {
		from, indices := 0, int64(0)
		for i, l := range lists {
			step := l.length()
			if i > from && (i-from == passSize || indices+step > passIndices) {
				if !yield(lists[from:i]) {
					return
				}
				from, indices = i, 0
			}
			indices += step
		}
		if from < len(lists) {
			yield(lists[from:])
		}
	}
}

// refillNow refills unless that is under way, waits for the end, and says how it
// went. After the patience it waits no more, which is no error: a long segment
// arrives in parts, and the first may be there.
func (l *list) refillNow(ignoreLock bool, patience time.Duration) error {
	l.mu.Lock()
	if l.claimRefill() && !l.svc.background.Go(func() { l.svc.runPass([]*job{{list: l, manner: manner{ignoreLock: ignoreLock}}}) }) {
		l.release(background.ErrStopping)
	}
	ended, err := l.refill, l.refillErr
	l.mu.Unlock()
	if ended == nil {
		return err
	}
	if background.Pause(context.Background(), patience, ended) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refillErr
}

// claimRefill keeps the list for one refill; false means one is under way, or that none may begin
// yet. Callers hold mu.
func (l *list) claimRefill() bool {
	if l.refill != nil || l.closed != nil || time.Now().Before(l.past().pauseUntil) {
		return false
	}
	l.refill = make(chan struct{})
	return true
}

// release ends the refill that claim began. Callers hold mu.
func (l *list) release(err error) {
	if err != nil {
		l.setback().retryAt = time.Now().Add(refillRetry)
	}
	if errors.Is(err, model.ErrLimitReached) || errors.Is(err, model.ErrUnconfirmed) {
		l.setback().pauseUntil = time.Now().Add(exhaustedFor)
	}
	l.refillErr = err
	close(l.refill)
	l.refill = nil
	if l.again && l.isLow(l.depth) {
		l.becomeDue()
	}
	l.again = false
}

// spare is how many indices a segment may have beside what callers wait for: a list that is lost never costs
// much of a small space. Callers hold mu.
func (l *list) spare() int64 { return max(leastSpare, l.left()/spareShare) }

// maxStep is the longest segment to ask for. Callers hold mu.
func (l *list) maxStep() int64 {
	needed, _ := l.waiters.Needed()
	return min(max(l.svc.opts.MaxStep, l.cfg.Step), l.spare()+int64(needed))
}
