package model

import (
	"fmt"
	"math"
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

// Server is one life of a database server: the server, and when it started. The
// zero value means a database without such a thing, a file.
type Server struct {
	ID       string
	BootedAt time.Time // by the server's own clock
}

// bootSlack is how far two readings of one boot time may be apart: both are
// differences of whole seconds.
const bootSlack = 5 * time.Second

// is says whether both are the same life of the same server.
func (s Server) is(other Server) bool {
	return s.ID == other.ID && s.BootedAt.Sub(other.BootedAt).Abs() <= bootSlack
}

// AllocState is what a row of id_alloc says about its list's next segment.
type AllocState struct {
	Key         ListKey
	MaxID       int64     // highest index handed out
	Step        int64     // smallest segment, in indices
	CurrentStep int64     // length of the last segment; 0 before the first
	AllocatedAt time.Time // when the last segment was taken; zero before the first
	Limit       Limit

	// Who could tell, should the row have gone back in time:
	Server    Server // that stored the last segment; zero before the first
	History   string // of the store of lists for which that segment was taken
	LastMaxID int64  // what MaxID was then, before it was raised, if it was
}

// AllocRequest asks for the next segment of a list.
type AllocRequest struct {
	Key ListKey
	// Floor is the highest index known to have been handed out by anyone but
	// the row: the list's high-water mark and what this process has seen. The
	// segment starts above it, so a row that went back in time repeats nothing.
	Floor int64
	// History is that of the store of lists, and Marked says that the list has a
	// high-water mark there. Together they can vouch for Floor.
	History string
	Marked  bool
	// Grow says that the last segment was used up by callers, and did not
	// vanish with a store, so that a longer one is due.
	Grow bool
	// MaxStep bounds the segment, in indices.
	MaxStep int64
	// MaxRate is more than the list ever hands out, in indices a second.
	MaxRate int64
}

// Allocation is the answer to one AllocRequest: either Err is set or Segment is
// committed and belongs to the caller alone.
type Allocation struct {
	Segment Segment
	// Lifted is by how much Floor was above the row's max_id: the row went back
	// in time. 0 in normal operation.
	Lifted int64
	// Jumped is how many indices were left out because the row may have gone
	// back in time and nobody could tell how far. 0 in normal operation.
	Jumped int64
	Err    error // ErrLimitReached, ErrUnconfirmed, ErrUnknownShard, or the store's failure
}

// base is the highest index that may have been handed out, as far as is known.
func (s AllocState) base(req AllocRequest) int64 { return max(s.MaxID, req.Floor, 0) }

// Next chooses the next segment, on the server that holds the row, and the state
// to store before it is used. It must run under the row's lock. The error is
// ErrLimitReached when no index is left below the limit, or ErrUnconfirmed when
// an operator must first say that max_id is right; then nothing is to be stored.
func (s AllocState) Next(req AllocRequest, now time.Time, on Server) (Segment, AllocState, error) {
	base, last := s.base(req), s.Limit.LastIndex(s.Key)
	if base >= last {
		return Segment{}, s, fmt.Errorf("%w: list %s: index %d of at most %d", ErrLimitReached, s.Key, base, last)
	}
	jump, err := s.jump(req, now, on, last-base)
	if err != nil {
		return Segment{}, s, err
	}
	base += jump
	next := s
	next.CurrentStep = s.nextStep(req, now, last-base)
	next.MaxID = min(base+next.CurrentStep, last)
	next.AllocatedAt, next.Server, next.History, next.LastMaxID = now, on, req.History, next.MaxID
	return Segment{First: base + 1, Last: next.MaxID}, next, nil
}

// Answer is the allocation of a segment that Next chose.
func (s AllocState) Answer(req AllocRequest, segment Segment) Allocation {
	return Allocation{
		Segment: segment,
		Lifted:  max(0, req.Floor-s.MaxID),
		Jumped:  segment.First - 1 - s.base(req),
	}
}

// jumpShare is the share of what is left, one part in so many, that a jump may
// burn without an operator's word.
const jumpShare = 100

// jump is how many indices above base to leave out because the row may be older
// than it looks. That is so when another life of the database server stored it
// than the one that holds it now, and the list cannot vouch for max_id: it is of
// another history than the last segment was taken for, or has lost its mark. A
// restart of one store alone costs nothing.
//
// The result is at least as high as the list can have come since its last
// segment, counted from there and not from base: so whoever starts from the same
// row later, once more restored, ends up higher than whoever did before. The rate
// is a bound and not one learnt from the row, which does not know how fast the
// list was after it.
func (s AllocState) jump(req AllocRequest, now time.Time, on Server, left int64) (int64, error) {
	vouched := req.Marked && req.History == s.History
	if vouched || s.Server.ID == "" || on.ID == "" || s.Server.is(on) {
		return 0, nil
	}
	step := max(req.MaxStep, s.Step)
	seconds := 1 + math.Ceil(max(0, now.Sub(s.AllocatedAt).Seconds()))
	missing := float64(max(req.MaxRate, step))*seconds + float64(step)
	if missing > float64(left/jumpShare) {
		return 0, fmt.Errorf("%w: list %s: the database server and the list have both changed, and up to %.0f indices may be missing from max_id %d: "+
			"if the database was restored, raise max_id above the highest index in use; then run `shardid confirm --app %d`", ErrUnconfirmed, s.Key, missing, s.MaxID, s.Key.App)
	}
	return max(0, s.LastMaxID+int64(missing)-s.base(req)), nil
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
