package queue

import (
	"errors"
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

// pushFailed lets the list pause after a push that failed, longer each time. Each costs a
// segment, and a store that answers and takes nothing, such as a Redis without memory,
// would use up many.
func (l *list) pushFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauseFor = min(max(2*l.pauseFor, refillRetry), longestPause)
	l.pauseUntil = time.Now().Add(l.pauseFor)
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
