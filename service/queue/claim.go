package queue

import (
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"shardid/model"
)

const (
	// maxJitter spreads the replicas that see the same low watermark.
	maxJitter = 20 * time.Millisecond
	// refillRetry is the shortest pause after a failure before the low watermark
	// causes another try. Callers that wait on an empty list try by themselves.
	refillRetry = 200 * time.Millisecond
	// longestPause after a push that failed: a list goes on within two seconds of its
	// store's return.
	longestPause = 8 * refillRetry

	// Failed pushes may cost a list, in an hour, so many segments or one part in so
	// many of the indices that are left, whichever is less.
	lossesPerHour = 60
	lossShare     = 20

	// firstNarrow is the first segment of a narrow list, in indices.
	firstNarrow = 8
	// narrowShare is the share of the indices that are left, one part in so many, that
	// a narrow list may hold.
	narrowShare = 1000
	// narrowLasts is how long a segment of a narrow list lasts for the next not to be
	// longer.
	narrowLasts = time.Minute
)

// refillSoon refills in the background, unless that is under way or has failed a
// moment ago.
func (l *list) refillSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.soon || now.Before(l.retryAt) || now.Before(l.pauseUntil) {
		return
	}
	l.soon = l.svc.spawn(func() {
		if l.svc.sleep(mathrand.N(maxJitter)) {
			l.svc.refill([]*list{l}, false)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.soon = false
	})
}

// refillNow refills unless that is under way, waits for the end, and says how it
// went. After the patience it waits no more, which is no error: a long segment
// arrives in parts, and the first may be there.
func (l *list) refillNow(withoutLock bool, patience time.Duration) error {
	if err := l.pausing(); err != nil {
		return err
	}
	if l.beginRefill() && !l.svc.spawn(func() { l.svc.runPass([]*job{{list: l}}, withoutLock) }) {
		l.endRefill(errStopping)
	}
	ended := l.refillInFlight()
	if ended == nil {
		return l.howRefillEnded()
	}
	patient := time.NewTimer(patience)
	defer patient.Stop()
	select {
	case <-ended:
		return l.howRefillEnded()
	case <-patient.C:
		return nil
	}
}

// refillInFlight is closed at its end; nil means there is none.
func (l *list) refillInFlight() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refill
}

func (l *list) howRefillEnded() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refillErr
}

// pausing is why no segment is asked for at present; nil when one may be.
func (l *list) pausing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.pauseUntil) {
		return l.refillErr
	}
	return nil
}

// pushFailed lets the list pause after a push that failed and cost n indices, longer
// each time, and gives the error to report. Beyond an hour's budget the list waits
// until time has paid for what was lost.
func (l *list) pushFailed(n int64, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.lost = max(0, l.lost-now.Sub(l.lostAt).Hours())
	l.lost += max(1.0/lossesPerHour, float64(n)*lossShare/float64(max(1, l.left())))
	l.lostAt = now
	l.pauseFor = min(max(2*l.pauseFor, refillRetry), longestPause)
	pause := l.pauseFor
	if over := time.Duration((l.lost - 1) * float64(time.Hour)); over > pause {
		pause = over
		err = fmt.Errorf("no segment is taken for %v, as many were lost in failed pushes: %w", over.Round(time.Second), err)
	}
	l.pauseUntil = now.Add(pause)
	return err
}

// maxStep is the longest segment to ask for. A narrow list gets little more than its
// callers wait for, and after a failed push only what shows that the next one works.
// grow says that the last segment was used up. Callers hold mu.
func (l *list) maxStep(grow bool) int64 {
	if !model.Narrow(l.left()) {
		return l.svc.opts.MaxStep
	}
	now := time.Now()
	switch lasted := now.Sub(l.asked); {
	case grow && lasted < narrowLasts:
		l.narrow *= 2
	case lasted > 2*narrowLasts:
		l.narrow /= 2
	}
	l.asked = now
	l.narrow = min(max(firstNarrow, min(l.narrow, l.left()/narrowShare)), l.svc.opts.MaxStep)
	if l.pauseFor > 0 {
		return 1
	}
	n := l.narrow
	for _, w := range l.waiters {
		n += int64(w.n)
	}
	return min(n, l.svc.opts.MaxStep)
}

// fillsAhead says whether the sweep fills the list, before anybody asks for an index.
func (l *list) fillsAhead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !model.Narrow(l.left()) && !time.Now().Before(l.pauseUntil)
}

// mayBeRechecked says whether a list that failed is refilled again although nobody asks
// for it. A push that failed has cost a segment: the next may cost another one.
func (l *list) mayBeRechecked(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !now.Before(l.pauseUntil) && now.Sub(l.lostAt) > time.Hour/lossesPerHour
}

// beginRefill claims the list for one refill; false means one is in flight.
func (l *list) beginRefill() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refill != nil || l.closed != nil {
		return false
	}
	l.refill = make(chan struct{})
	return true
}

func (l *list) endRefill(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.retryAt = time.Now().Add(refillRetry)
	}
	if errors.Is(err, model.ErrLimitReached) {
		l.pauseUntil = time.Now().Add(exhaustedFor)
	}
	l.refillErr = err
	close(l.refill)
	l.refill = nil
}
