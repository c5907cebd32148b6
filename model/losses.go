package model

import "time"

const (
	// longestPause follows a loss, half of it the one before, and so on for doublings. A counter
	// whose store works again waits for no longer.
	longestPause = 1250 * time.Millisecond
	doublings    = 3
	// lossShare is the share of what is left, one part in so many, in losses beyond which
	// the pauses double on: after a quarter of an hour of losses for a list of 131 071 indices.
	lossShare = 200
)

// Care bounds the next segment after one was lost: a store failed, and may have it or
// not. The zero value bounds nothing.
type Care int64

// careful asks for an empty segment. It goes the whole way of a segment and costs
// nothing, so it shows whether numbers would arrive.
const careful Care = 1

// Bound is how many numbers to ask for instead of n.
func (c Care) Bound(n int64) int64 {
	if c == 0 {
		return n
	}
	return min(n, int64(c-careful))
}

// Losses say how a counter goes on after segments that were lost on their way. The next try
// asks for nothing, until that arrives, and then for one number more than has arrived since,
// until that is as many as are wanted. The zero value is without losses.
type Losses struct {
	Care Care
	debt int64 // losses, less segments that have arrived since
}

// Lost notes that a try failed of a counter that has so many numbers left, and gives the
// pause before the next: none after an empty segment, which cost nothing.
func (l *Losses) Lost(left int64) time.Duration {
	if l.Care == careful {
		return 0
	}
	l.Care = careful
	l.debt++
	further := min(l.debt-max(doublings, left/lossShare), 20)
	return longestPause >> max(0, doublings-l.debt) << max(0, further)
}

// Arrived notes that a segment of n numbers has arrived.
func (l *Losses) Arrived(n int64) {
	if n < l.Care.Bound(n+1) {
		*l = Losses{}
		return
	}
	l.Care += Care(max(1, n))
	l.debt -= min(l.debt, n, 1)
}
