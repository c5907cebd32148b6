package segment

import "time"

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
