package model

import (
	"fmt"
	"math"
	"time"
)

// What a jump must leave out. A counter hands out at most burst·Rate + Rate·x numbers in any x seconds. So a copy of
// its row that is complete up to a moment lacks a bounded number of them, and that is its doubt. A jump over twice as
// many numbers, and a wait before it, also cover a second failover to a copy that knows nothing of the first.
//
// An example, of a counter whose Rate is 100 and whose row says 5,000:
//
//	12:00:00  The last heartbeat that the copy has. All that was stored before is in it.
//	12:00:20  The server dies. It has issued at most 2·100 + 100·20 = 2,200 numbers that the copy lacks: up to
//	          7,200. The copy's server notes the change. Each clock may be 5 s off, so that the 20 s may have been 30:
//	          the doubt is 2·100·30 + 1 = 6,001 (Gap.Doubt).
//	12:00:44  After jumpWait and twice the 10 s (ServerTimes.Note), the first number is taken: 11,002.
//	12:01:00  That server dies, too. It has issued at most 2·100 + 100·16 = 1,800 numbers: up to 12,801. Another
//	          copy of 12:00:00 takes over, which knows no jump. Its doubt is 2·100·70 + 1 = 14,001, so it continues
//	          above 19,001.
//
// For each second that passes, the second jump becomes 200 longer, while 100 numbers are taken at most. Without the
// wait it would be too short at first: at 12:00:21 the first server may have come to 11,001 + 200 + 100 = 11,301,
// and the jump of the second, 2·100·31 + 1, would end at 11,201.
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
	// RaiseDelay is for how long a rate above the default, or a longer hold, must have been stored
	// before it is used, so that every replica, and a stale replica by less, knows of it.
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

// Counter is what a row of the database says about numbers that are issued in
// ascending order. All times are by the database's clock.
type Counter struct {
	Last   int64     // highest number that was issued, as far as the row knows
	Rate   int64     // numbers a second, at most; 0 is no bound
	Tokens int64     // of the token bucket at At
	At     time.Time // when numbers were taken last; zero before the first time

	// Doubt is how many numbers above Last may have been issued all the same: the
	// row may be a copy that went back in time, and nobody vouches for it. No number is
	// taken before JumpFrom that lies beyond a doubt.
	Doubt    int64
	JumpFrom time.Time

	// PeriodBits is, for business numbers, how many low bits of a number count within its
	// period (Numbers); 0 without periods. The counter then also rises to the start of a
	// period, which no doubt accounts for: a doubt says how many numbers may be missing of
	// the period that Last is raised to. It does not shrink when Last is raised.
	PeriodBits uint
}

// ServerTimes are what a database keeps about its servers, by its own clock.
type ServerTimes struct {
	Since  time.Time // when the present server was noted
	Beat   time.Time // latest heartbeat
	Oldest time.Time // no jump reaches further than one from a copy of that time; zero for none
	// JumpFrom is from when on numbers may be taken that lie beyond a doubt.
	JumpFrom time.Time
}

// Behind says whether the database says less of the same server than a process has seen.
func (t ServerTimes) Behind(seen ServerTimes) bool {
	return t.Since.Equal(seen.Since) && t.Beat.Before(seen.Beat)
}

// Gap is how much a copy of the database may lack.
type Gap struct {
	Known time.Time     // what the copy has for sure was stored before
	Now   time.Time     // when another life of the server was noted
	Slack time.Duration // clocks may differ so much
	// Reach is from when on jumps went that the copy does not know of; zero for none.
	Reach time.Time
	// Again says that no server can have gone beyond an earlier doubt yet.
	Again bool
}

// Note returns the times to store when another life of the server is noted at now, and the gap that is left. restarted
// says that the server that wrote last came back. missedChange says that this copy does not have the last change of the
// server that was seen: a jump that was made after that change may be longer than one from the copy's heartbeat, so the
// gap begins where that jump began.
func (t ServerTimes) Note(seen ServerTimes, now time.Time, restarted, missedChange bool) (ServerTimes, Gap) {
	gap := Gap{Known: t.Beat, Now: now, Slack: 2 * MaxClockApart}
	if restarted {
		gap.Slack = sameClock
	}
	gap.Again = now.Add(gap.Slack).Before(t.JumpFrom)
	oldest := earlier(t.Oldest, t.Beat)
	if missedChange {
		gap.Reach, gap.Slack = earlier(t.Beat, seen.Oldest), 2*MaxClockApart
		// Rows have gone on by 2·Rate a second between oldest and Beat, and by Rate before. The jump begins there,
		// and ends 2·Rate further for each second from Reach. An older copy's jump comes as far if it begins
		// twice as long before oldest.
		oldest = oldest.Add(2 * (gap.Reach.Sub(t.Beat) - gap.Slack))
	}
	oldest = earlier(oldest, seen.Oldest)
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
// that time, and whose earlier doubt was before. Clocks that differ count once. A row that was
// used long after the change accounts for it, unless by version 0.2, which knows of no changes:
// then its last use says nothing of the copy.
func (g Gap) Doubt(rate int64, at time.Time, before int64) int64 {
	known := g.Known
	if at.After(known) && !at.After(g.Now.Add(g.Slack)) {
		known = at
	}
	gap, reach := g.Now.Sub(known), time.Duration(0)
	if !g.Reach.IsZero() {
		reach = g.Now.Sub(g.Reach)
	}
	if gap < -g.Slack || max(gap, reach) > MaxGap {
		return UnknownDoubt
	}
	if before == 0 || !g.Again {
		gap += g.Slack
	}
	doubt := before + lost(rate, gap)
	if !g.Reach.IsZero() { // it reaches back before what the row knows to be in doubt about
		doubt = max(doubt, lost(rate, reach+g.Slack))
	}
	return min(UnknownDoubt, doubt)
}

// lost is what a jump over a gap leaves out.
func lost(rate int64, gap time.Duration) int64 {
	ms := max(0, gap.Milliseconds())
	return 2*rate*(ms/1000) + 2*rate*(ms%1000)/1000 + 1
}

// Raise brings the counter up to floor, the highest number that is known to be handed
// out. A doubt then reaches as far as before.
func (c Counter) Raise(floor int64) Counter {
	if raised := max(floor, 0) - c.Last; raised > 0 {
		c.Last += raised
		if c.Doubt > 0 && c.PeriodBits == 0 {
			c.Doubt = max(1, c.Doubt-raised)
		}
	}
	return c
}

// asks says whether the jump would burn too much of what is left up to limit.
func (c Counter) asks(limit int64) bool { return c.Doubt > max(0, limit-c.Last)/jumpShare }

// Unconfirmed says whether TakeNumbers would answer ErrUnconfirmed, as far as floor and limit tell.
func (c Counter) Unconfirmed(floor, limit int64) bool {
	next := c.Raise(floor)
	return next.Last < limit && next.Doubt > 0 && next.asks(limit)
}

// TakeNumbers takes up to want numbers above floor, of which the last may be at most limit. They
// are the n after first-1, and the second Counter is to be stored before they are used. A
// doubt is jumped over. Errors: ErrLimitReached,
// ErrUnconfirmed when the jump would burn too much of what is left, ErrJumping and
// ErrRate while it is too early.
func (c Counter) TakeNumbers(floor, want, limit int64, now time.Time) (first, n int64, next Counter, err error) {
	next = c.Raise(floor)
	left := limit - next.Last
	if left <= 0 {
		return 0, 0, c, fmt.Errorf("%w: number %d of at most %d", ErrLimitReached, next.Last, limit)
	}
	if next.Doubt > 0 {
		if next.asks(limit) {
			return 0, 0, c, fmt.Errorf("%w: the database may be a copy that lacks up to %d numbers above %d",
				ErrUnconfirmed, next.Doubt, next.Last)
		}
		if wait := next.JumpFrom.Sub(now); wait > 0 {
			return 0, 0, c, fmt.Errorf("%w: %v to go", ErrJumping, wait.Round(time.Millisecond))
		}
		next.Last, left, next.Doubt = next.Last+next.Doubt, left-next.Doubt, 0
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
