package segment

import "time"

const (
	// rateWindow is the time constant of the average rate that is shown.
	rateWindow = 30 * time.Second
	// maxRunway is the longest that is shown.
	maxRunway = 365 * 24 * time.Hour
	// segmentDuration is Leaf's SEGMENT_DURATION: a segment should last so long, and no more than twice
	// that.
	segmentDuration = 15 * time.Minute
)

// rate is how fast a tag is used, for those who look at it. Not safe for concurrent use.
type rate struct {
	perSecond   float64 // IDs, on average since began or for about rateWindow
	issued      int64   // IDs in all, at last
	began, last time.Time
}

// observe notes that issued IDs were used until now.
func (r *rate) observe(now time.Time, issued int64) {
	if elapsed := now.Sub(r.last).Seconds(); elapsed > 0 {
		share := min(1, elapsed/min(now.Sub(r.began), rateWindow).Seconds())
		r.perSecond += share * (float64(issued-r.issued)/elapsed - r.perSecond)
		r.issued, r.last = issued, now
	}
}

// runway is how long held IDs last at that rate, at most a year; nothing lasts no time.
func (r *rate) runway(held int64) time.Duration {
	if held == 0 {
		return 0
	}
	return time.Duration(min(float64(held)/r.perSecond, maxRunway.Seconds()) * float64(time.Second))
}

// step is the length of a tag's segments as Leaf tunes it. Not safe for concurrent use.
type step struct {
	row  int64     // the row's step, the shortest segment
	last int64     // the tuned length of the last segment; 0 before the first
	at   time.Time // when that was taken
}

// next is the length of the next segment at now: double when the last one was taken less than 15
// minutes ago, at most limit; half after 30 minutes; never less than the row's step.
func (s step) next(now time.Time, limit int64) int64 {
	n := s.last
	switch age := now.Sub(s.at); {
	case age < segmentDuration:
		n = max(n, min(2*n, limit))
	case age >= 2*segmentDuration:
		n /= 2
	}
	return max(n, s.row)
}

// took notes a segment that was asked for with that length, and the row's step as its transaction
// read it.
func (s *step) took(tuned, row int64, now time.Time) {
	s.row, s.last, s.at = row, max(tuned, row), now
}
