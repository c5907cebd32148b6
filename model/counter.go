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
// the first: it jumps 2·Rate further for each second after the first one, while at most
// Rate is used up in each. That pays for two bursts, and for what g is larger because
// clocks differ, when so much time has passed; no number is taken until then.
const (
	// burst is how many seconds' worth of numbers may be taken at once. A segment
	// has at most one second's worth.
	burst = 2
	// jumpWait is how long after a doubt was noted a counter waits that has to jump,
	// as far as bursts ask for it: two of them, in seconds of its rate.
	jumpWait = 2 * burst * time.Second
	// sameClock is added to g when a server comes back: its clock may have been set.
	sameClock = time.Second
	// MaxClockApart is how far the clocks of the database server and of a replica may
	// be apart. Two servers that are that near to a replica are twice that far apart
	// at most, which is added to g when another server takes over.
	MaxClockApart = 5 * time.Second
	// BeatEvery is the time between two heartbeats in the database. A heartbeat says
	// that a reader of it has everything that was stored before.
	BeatEvery = 10 * time.Second
	// RaiseDelay is for how long a higher rate must have been stored before it is
	// used, so that a copy that lags by less knows of it.
	RaiseDelay = time.Minute
	// MaxGap is the oldest copy whose doubt is computed.
	MaxGap = 1000 * 24 * time.Hour
	// UnknownDoubt is the doubt about a copy whose age is not known, because its
	// heartbeat lies in the future, or long ago: an operator must say how far it is
	// behind.
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
	// row may be a copy that went back in time. No number is taken before JumpFrom that
	// lies beyond a doubt.
	Doubt    int64
	JumpFrom time.Time
	// Life is that of the mark, in another store, that covers Last; "" without one.
	Life string

	// PeriodBits is, for business numbers, how many low bits of a number count within its
	// period (Numbers); 0 without periods. The counter then also rises to the start of a
	// period, which no doubt accounts for: a doubt says how many numbers may be missing of
	// the period that Last is raised to. It does not shrink when Last is raised.
	PeriodBits uint
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

// ServerTimes are what a database keeps about its servers, by its own clock.
type ServerTimes struct {
	Since  time.Time // when the present server was noted
	Beat   time.Time // latest heartbeat
	Oldest time.Time // no jump reaches further than one from a copy of that time; zero for none
	// JumpFrom is from when on numbers may be taken that lie beyond a doubt.
	JumpFrom time.Time
}

// Behind says whether the database lacks something that a process has seen in it.
func (t ServerTimes) Behind(seen ServerTimes) bool {
	return t.Since.Before(seen.Since) || t.Since.Equal(seen.Since) && t.Beat.Before(seen.Beat) || t.lacks(seen)
}

// lacks says whether numbers were jumped over, as a process has seen, that the database
// does not know of.
func (t ServerTimes) lacks(seen ServerTimes) bool {
	return !seen.Oldest.IsZero() && (t.Since.Before(seen.Since) || t.Oldest.IsZero() || seen.Oldest.Before(t.Oldest))
}

// Gap is how much a copy of the database may lack.
type Gap struct {
	Known time.Time     // what the copy has for sure was stored before
	Now   time.Time     // when another life of the server was noted
	Slack time.Duration // clocks may differ so much
	// Rows says that a row's own time counts where it is later than Known.
	Rows bool
	// Again says that no server can have gone beyond an earlier doubt yet.
	Again bool
}

// Note returns the times to store when another life of the server is noted at now, and
// the gap that is left. same says that the server is the one that wrote last and has restarted.
// A jump that the database does not know of went further than one from its own
// heartbeat would, so that the gap has to begin where that one's did.
func (t ServerTimes) Note(seen ServerTimes, now time.Time, same bool) (ServerTimes, Gap) {
	gap := Gap{Known: t.Beat, Now: now, Slack: 2 * MaxClockApart, Rows: true}
	if same {
		gap.Slack = sameClock
	}
	gap.Again = now.Add(gap.Slack).Before(t.JumpFrom)
	oldest := earlier(earlier(t.Oldest, seen.Oldest), t.Beat)
	if t.lacks(seen) {
		gap.Known, gap.Slack, gap.Rows = earlier(t.Beat, seen.Oldest), 2*MaxClockApart, false
		// The rows have gone on since, so the jump ends as much further.
		oldest = earlier(oldest, gap.Known.Add(gap.Known.Sub(t.Beat)-gap.Slack))
	}
	// What clocks differ by, and two bursts, are paid for by time.
	from := now.Add(jumpWait + 2*gap.Slack)
	if from.Before(t.JumpFrom) {
		from = t.JumpFrom
	}
	return ServerTimes{Since: now, Beat: now, Oldest: oldest, JumpFrom: from}, gap
}

// earlier returns the earlier of two times; a zero time counts as none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Doubt returns how many numbers a row may lack: one with this rate, that was used last at
// that time, and whose earlier doubt was before. Clocks that differ count once.
func (g Gap) Doubt(rate int64, at time.Time, before int64) int64 {
	gap := g.Now.Sub(g.Known)
	if g.Rows && at.After(g.Known) {
		gap = g.Now.Sub(at)
	}
	if gap < -g.Slack || gap > MaxGap {
		return UnknownDoubt
	}
	if before == 0 || !g.Rows || !g.Again {
		gap += g.Slack
	}
	ms := max(0, gap.Milliseconds())
	doubt := 2*rate*(ms/1000) + 2*rate*(ms%1000)/1000 + 1
	if !g.Rows { // it reaches back before whatever the row is in doubt about
		return min(UnknownDoubt, max(before, doubt))
	}
	return min(UnknownDoubt, before+doubt)
}

// Settle brings the counter up to what is known beside it. A mark of the life that
// the row names covers all that was handed out, so it ends a doubt; in another life
// nothing can, even if that one comes back. The row then names the life of every mark
// that is as high as the row.
func (c Counter) Settle(e Evidence) Counter {
	switch {
	case e.Life == "":
	case e.Life == c.Life:
		c.Doubt = 0
	case c.Doubt > 0:
		c.Life = ""
	}
	if c.Doubt == 0 {
		if e.Mark >= c.Last {
			c.Life = e.Life
		} else if c.Life != e.Life {
			c.Life = ""
		}
	}
	if raised := max(e.Floor, 0) - c.Last; raised > 0 {
		c.Last += raised
		if c.Doubt > 0 && c.PeriodBits == 0 {
			c.Doubt = max(1, c.Doubt-raised) // it reaches as far as before
		}
	}
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
		if wait := next.JumpFrom.Sub(now); wait > 0 {
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
