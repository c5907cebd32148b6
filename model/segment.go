package model

import (
	"fmt"
	"strings"
	"time"
)

// Segment is a run of indices, both ends included.
type Segment struct{ First, Last int64 }

// Len is the number of indices in the segment; none are in the zero value.
func (s Segment) Len() int64 { return s.Last - max(s.First, 1) + 1 }

// Demand-driven step tuning, as Leaf's SegmentIDGenImpl does it (SEGMENT_DURATION,
// MAX_STEP): a segment should last between 15 and 30 minutes.
const (
	segmentDuration = 15 * time.Minute
	// segmentShare is the share of what is left under a limit, or of a period's business
	// numbers, one part in so many, that a segment may take.
	segmentShare = 100
)

// TunedStep is the length of the segment that follows one of that length and that age.
func TunedStep(last int64, age time.Duration) int64 {
	switch {
	case age < segmentDuration:
		return 2 * last
	case age >= 2*segmentDuration:
		return last / 2
	}
	return last
}

// Server is one life of a database server: the server, and when it started. A
// cluster that certifies commits is one server whose life never ends.
type Server struct {
	ID       string
	BootedAt time.Time // by the server's own clock; zero for a cluster
	// Life tells servers apart that share ID and BootedAt: what is random at each start, a
	// dash, and what the machine and the server have been given; and a cluster from itself
	// when it was restored. "" is not known.
	Life string
}

// bootSlack is how far two readings of one boot time may be apart: both are
// differences of whole seconds.
const bootSlack = 5 * time.Second

// Is says whether both are the same life of the same server.
func (s Server) Is(other Server) bool {
	return s.Again(other) && s.BootedAt.Sub(other.BootedAt).Abs() <= bootSlack &&
		(s.Life == "" || other.Life == "" || s.Life == other.Life)
}

// Again says whether both are the same server, perhaps in another life.
func (s Server) Again(other Server) bool {
	_, given, known := strings.Cut(s.Life, "-")
	_, others, knows := strings.Cut(other.Life, "-")
	return s.ID == other.ID && (!known || !knows || given == others)
}

// AllocState is what a row of id_alloc says about its list's next segment. Last is
// max_id, At is taken_at.
type AllocState struct {
	Counter
	Key         ListKey
	Step        int64 // smallest segment, in indices
	CurrentStep int64 // length of the last segment; 0 before the first
	LastMaxID   int64 // what max_id was then, before it was lowered by hand, if it was
	Limit       Limit
	Region      Region
}

// AllocRequest asks for the next segment of a list.
type AllocRequest struct {
	Key ListKey
	// Floor is the highest index known to have been issued by anyone but
	// the row and the witness: the list's high-water mark and what this process has seen. The
	// segment starts above it and above Mark, so a row that went back in time repeats nothing.
	Floor int64
	Mark  int64 // that of the witness
	// Changed says that the database has changed since the row was stored. Else a row below
	// Mark, which rises before a commit, has not gone back: a commit has failed.
	Changed bool
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
	// Lifted is by how much what was issued is above the row's max_id: the row went back
	// in time. 0 in normal operation.
	Lifted int64
	// Jumped is how many indices were skipped because the row may have gone
	// back in time by an unknown amount. 0 in normal operation.
	Jumped int64
	// Err is ErrLimitReached, ErrUnconfirmed, ErrJumping, ErrRate, ErrUnknownShard, or a
	// *StoreError, after which the segment may be committed all the same.
	Err error
}

// Next chooses the next segment, and the state to store before it is used. It must
// run under the row's lock. Errors: those of Counter.TakeNumbers; then nothing is to be
// stored.
func (s AllocState) Next(req AllocRequest, now time.Time) (Allocation, AllocState, error) {
	next := s
	known, limit := max(req.Floor, s.LastMaxID), min(s.Limit.LastIndex(s.Key), s.Region.MaxIndex())
	floor := max(known, req.Mark)
	if req.Changed {
		known = floor
	}
	raised := s.Raise(floor).Last
	next.CurrentStep = s.nextStep(req, now, limit-raised)
	first, n, counter, err := s.TakeNumbers(floor, next.CurrentStep, limit, now)
	if err != nil {
		return Allocation{}, s, fmt.Errorf("list %s: %w", s.Key, err)
	}
	next.Counter, next.LastMaxID = counter, counter.Last
	return Allocation{
		Segment: Segment{First: first, Last: first + n - 1},
		Lifted:  max(0, known-max(s.Last, 0)),
		Jumped:  first - 1 - raised,
	}, next, nil
}

// nextStep follows demand. With a limit no more than a hundredth of what is left is
// taken at once, whatever the row's step, so that a lost list never costs much of a
// small space.
func (s AllocState) nextStep(req AllocRequest, now time.Time, left int64) int64 {
	step := max(s.CurrentStep, s.Step, 1)
	if tuned := TunedStep(step, now.Sub(s.At)); !s.At.IsZero() && (tuned < step || req.Grow) {
		step = tuned
	}
	step = min(max(step, s.Step), req.MaxStep)
	if s.Limit.MaxID != 0 {
		step = min(step, left/segmentShare)
	}
	return max(step, 1)
}
