package model

import (
	"fmt"
	"time"
)

// Segment is a run of indices, both ends included.
type Segment struct{ First, Last int64 }

// Len is the number of indices in the segment.
func (s Segment) Len() int64 { return s.Last - s.First + 1 }

// Demand-driven step tuning, as Leaf's SegmentIDGenImpl does it (SEGMENT_DURATION,
// MAX_STEP): a segment should last between 15 and 30 minutes.
const (
	segmentDuration = 15 * time.Minute
	idleDuration    = 2 * segmentDuration
)

// AllocState is what a row of id_alloc says about its list's next segment.
type AllocState struct {
	Key         ListKey
	MaxID       int64     // highest index handed out
	Step        int64     // smallest segment, in indices
	CurrentStep int64     // length of the last segment; 0 before the first
	AllocatedAt time.Time // when the last segment was taken; zero before the first
	Limit       Limit
}

// AllocRequest asks for the next segment of a list.
type AllocRequest struct {
	Key ListKey
	// Floor is the highest index known to have been handed out by anyone but
	// the row: the list's high-water mark and what this process has seen. The
	// segment starts above it, so a row that went back in time repeats nothing.
	Floor int64
	// Grow says that the last segment was used up by callers, and did not
	// vanish with a store, so that a longer one is due.
	Grow bool
	// MaxStep bounds the segment, in indices.
	MaxStep int64
}

// Allocation is the answer to one AllocRequest: either Err is set or Segment is
// committed and belongs to the caller alone.
type Allocation struct {
	Segment Segment
	// Lifted is by how much Floor was above the row's max_id: the row went back
	// in time. 0 in normal operation.
	Lifted int64
	Err    error // ErrLimitReached, ErrUnknownShard, or the store's failure
}

// Next chooses the next segment and the state to store before it is used. It
// must run under the row's lock. The error is ErrLimitReached when no index is
// left below the limit; then nothing is to be stored.
func (s AllocState) Next(req AllocRequest, now time.Time) (Segment, AllocState, error) {
	base := max(s.MaxID, req.Floor, 0)
	last := s.Limit.lastIndex(s.Key)
	if base >= last {
		return Segment{}, s, fmt.Errorf("%w: list %s: index %d of at most %d", ErrLimitReached, s.Key, base, last)
	}
	step := s.nextStep(req, now, last-base)
	s.CurrentStep, s.AllocatedAt = step, now
	s.MaxID = min(base+step, last)
	return Segment{First: base + 1, Last: s.MaxID}, s, nil
}

// nextStep follows demand. With a limit no more than a hundredth of what is
// left is taken at once, so that a lost list never costs much of a small space.
func (s AllocState) nextStep(req AllocRequest, now time.Time, left int64) int64 {
	step := max(s.CurrentStep, s.Step, 1)
	age := now.Sub(s.AllocatedAt)
	switch {
	case s.AllocatedAt.IsZero():
	case age < segmentDuration && req.Grow:
		step *= 2
	case age >= idleDuration:
		step /= 2
	}
	bound := req.MaxStep
	if s.Limit.MaxID != 0 {
		bound = min(bound, left/100)
	}
	return max(min(step, bound), s.Step, 1)
}
