package model

import (
	"fmt"
	"math"
	"time"
)

// The bounds that make a jump safe. A counter hands out at most burst·Rate + Rate·x
// numbers in any x seconds. A copy of its row that is complete up to a moment g ago
// therefore lacks at most burst·Rate + Rate·g of them, and a jump by 2·Rate·g covers
// that. The factor 2 and the wait are for a second doubt whose copy knows nothing of
// the first: it starts 2·Rate for each second after the first one, which has used up
// at most Rate for each second and two bursts, and these are paid for by the wait.
const (
	// burst is how many seconds' worth of numbers may be taken at once. A segment
	// has at most one second's worth.
	burst = 2
	// JumpWait is how long after a doubt was noted a counter waits that has to jump:
	// two bursts, in seconds of its rate.
	JumpWait = 2 * burst * time.Second
	// MaxClockApart is how far the clocks of the database server and of a replica may
	// be apart. Two servers that are that near to a replica are twice that far apart
	// at most, which is added to g.
	MaxClockApart = 5 * time.Second
	// BeatEvery is the time between two heartbeats in the database. A heartbeat says
	// that whoever reads it has everything that was stored before.
	BeatEvery = 10 * time.Second
	// beatSlack is how far after a heartbeat a row's own time may lie and count as
	// well as the heartbeat: the next one is due by then. A later one is no proof,
	// because an older shardid stored the clock of the replica.
	beatSlack = BeatEvery + MaxClockApart
	// RaiseDelay is for how long a higher rate must have been stored before it is
	// used, so that a copy that lags by less knows of it.
	RaiseDelay = time.Minute
	// UnknownDoubt is the doubt about a copy whose age is not known, because its
	// heartbeat lies in the future: an operator must say how far it is behind.
	UnknownDoubt int64 = 1 << 60
	// jumpShare is the share of the numbers that are left, one part in so many, that
	// a jump may burn without an operator's word.
	jumpShare = 100
)

// Counter is what a row of the database says about numbers that are handed out in
// ascending order. All times are by the database's clock.
type Counter struct {
	Last   int64     // highest number that was handed out, as far as the row knows
	Rate   int64     // numbers a second, at most; 0 is no bound
	Tokens int64     // of the token bucket at At
	At     time.Time // when numbers were taken last; zero before the first time

	// Doubt is how many numbers above Last may have been handed out all the same: the
	// row may be a copy that went back in time. Noted is when that was found out.
	Doubt int64
	Noted time.Time
	// Life is that of the mark, in another store, that covers Last; "" without one.
	Life string
}

// Evidence is what is known about a counter beside its row.
type Evidence struct {
	Floor int64 // highest number that is known to be handed out
	// Mark is the counter's mark in another store, which is raised before numbers are
	// used; 0 means that none were in this life of that store. Life names a time in
	// which it has forgotten nothing; "" without such a store.
	Mark int64
	Life string
}

// DoubtOf is how many numbers a row may lack after another life of the database
// server has taken over at now: rate is the counter's, beat the heartbeat that the
// copy holds, and at when the row says that numbers were taken last.
func DoubtOf(rate int64, beat, at, now time.Time) int64 {
	gap := GapOf(beat, at, now)
	if gap < 0 {
		return UnknownDoubt
	}
	return 2 * rate * (int64(gap/time.Second) + 1)
}

// GapOf is the g of DoubtOf: how old, at most, the copy of the row is. Below zero it
// is not known.
func GapOf(beat, at, now time.Time) time.Duration {
	if last := beat.Add(beatSlack); at.After(last) {
		at = last
	}
	if at.Before(beat) {
		at = beat
	}
	return now.Sub(at) + 2*MaxClockApart
}

// Settle brings the counter up to what is known beside it. A mark of the life that
// the row names covers all that was handed out, so it ends a doubt. The row then
// names the life of every mark that is as high as the row.
func (c Counter) Settle(e Evidence) Counter {
	if e.Life != "" && e.Life == c.Life {
		c.Doubt = 0
	}
	if c.Doubt == 0 {
		if e.Mark >= c.Last {
			c.Life = e.Life
		} else if c.Life != e.Life {
			c.Life = ""
		}
	}
	c.Last = max(c.Last, e.Floor, 0)
	return c
}

// Take takes up to want numbers of which the last may be at most limit. They are the
// n after first-1, and the second Counter is to be stored before they are used. A
// doubt that nothing has ended is jumped over. Errors: ErrLimitReached,
// ErrUnconfirmed when the jump would burn too much of what is left, ErrJumping and
// ErrRate while it is too early.
func (c Counter) Take(e Evidence, want, limit int64, now time.Time) (first, n int64, next Counter, err error) {
	next = c.Settle(e)
	left := limit - next.Last
	if left <= 0 {
		return 0, 0, c, fmt.Errorf("%w: number %d of at most %d", ErrLimitReached, next.Last, limit)
	}
	if next.Doubt > 0 {
		if next.Doubt > left/jumpShare {
			return 0, 0, c, fmt.Errorf("%w: the database may be a copy that lacks up to %d numbers above %d", ErrUnconfirmed, next.Doubt, next.Last)
		}
		if wait := next.Noted.Add(JumpWait).Sub(now); wait > 0 {
			return 0, 0, c, fmt.Errorf("%w: %v to go", ErrJumping, wait.Round(time.Millisecond))
		}
		next.Last, left, next.Doubt, next.Life = next.Last+next.Doubt, left-next.Doubt, 0, ""
	}
	n = min(want, left)
	if c.Rate > 0 {
		n = min(n, c.Rate)
		tokens := c.tokens(now)
		if tokens < min(n, max(1, c.Rate/10)) {
			return 0, 0, c, fmt.Errorf("%w: %d a second", ErrRate, c.Rate)
		}
		n = min(n, tokens)
		next.Tokens = tokens - n
	}
	first = next.Last + 1
	next.Last += n
	next.At = now
	return first, n, next, nil
}

// tokens is what the bucket holds at now. A clock that went back adds nothing.
func (c Counter) tokens(now time.Time) int64 {
	full := burst * c.Rate
	if c.At.IsZero() {
		return full
	}
	seconds := max(0, now.Sub(c.At).Seconds())
	return int64(math.Min(float64(full), float64(c.Tokens)+seconds*float64(c.Rate)))
}
