package segment

import (
	"math"
	"time"
)

const (
	// rateWindow is the time constant of the average rate, so that a busy second
	// does not count as the rate of an hour.
	rateWindow = 30 * time.Second
	// maxWanted bounds what a rate can ask for, in IDs; far above what is held.
	maxWanted = 1e15
	// maxRunway is the longest that is shown.
	maxRunway = 365 * 24 * time.Hour
)

// demand follows how fast a tag is used, and how much should be held for that.
// Not safe for concurrent use.
//
// What should be held starts at twice a second's use and doubles with each
// further second in which the tag is used, until it lasts for the runway: a
// burst of a second must not cost a small user ten minutes of its rate, while
// steady use gets all of it after ten seconds.
type demand struct {
	rate   float64 // IDs a second, averaged; too low by weight
	weight float64 // 0…1, how much of the average is filled
	target int64   // IDs that should be held
	issued int64   // IDs in all, at last
	last   time.Time
}

// observe notes that issued IDs were handed out until now.
func (d *demand) observe(now time.Time, issued int64, runway time.Duration) {
	elapsed := now.Sub(d.last).Seconds()
	if elapsed <= 0 {
		return
	}
	n := issued - d.issued
	d.issued, d.last = issued, now
	keep := math.Exp(-elapsed / rateWindow.Seconds())
	d.rate = d.rate*keep + float64(n)/elapsed*(1-keep)
	d.weight = d.weight*keep + (1 - keep)
	if n > 0 {
		d.target = 2 * max(d.target, n)
	}
	d.target = min(d.target, int64(min(d.perSecond()*runway.Seconds(), maxWanted)))
}

// perSecond is the present rate.
func (d *demand) perSecond() float64 {
	if d.weight == 0 {
		return 0
	}
	return d.rate / d.weight
}

// runway is how long held IDs last at the present rate, at most a year; nothing lasts no time.
func (d *demand) runway(held int64) time.Duration {
	if held == 0 {
		return 0
	}
	return time.Duration(min(float64(held)/d.perSecond(), maxRunway.Seconds()) * float64(time.Second))
}

// A segment should last between 15 and 30 minutes (Leaf's SEGMENT_DURATION, and
// twice that).
const (
	segmentDuration = 15 * time.Minute
	idleDuration    = 2 * segmentDuration
)

// step is the length of a tag's segments as Leaf tunes it. Not safe for
// concurrent use.
type step struct {
	row  int64     // the row's step, the shortest segment
	last int64     // the tuned length of the last segment; 0 before the first
	at   time.Time // when that was taken
}

// next is the length of the next segment at now: double when the last one was
// taken less than 15 minutes ago, at most limit; half after 30 minutes; never
// less than the row's step.
func (s step) next(now time.Time, limit int64) int64 {
	n := s.last
	switch age := now.Sub(s.at); {
	case age < segmentDuration:
		n = max(n, min(2*n, limit))
	case age >= idleDuration:
		n /= 2
	}
	return max(n, s.row)
}

// took notes a segment that was asked for with that length, and the row's step
// as its transaction read it.
func (s *step) took(tuned, row int64, now time.Time) {
	s.row, s.last, s.at = row, max(tuned, row), now
}
