package model

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// MaxTagBytes bounds a segment tag: Leaf's biz_tag is a varchar(128).
const MaxTagBytes = 128

// Tag is a row of Leaf's table leaf_alloc.
type Tag struct {
	Name        string
	MaxID       int64 // the first ID that has not been handed out
	Step        int64 // smallest segment, in IDs
	Description string
	UpdatedAt   time.Time
}

// TagRequest asks for the next segment of a tag.
type TagRequest struct {
	Tag   string
	Step  int64 // wanted length; the row's step when that is more
	Floor int64 // IDs below it have been handed out for sure
}

// TagSegment is a range of IDs that is committed as handed out.
type TagSegment struct {
	First, End int64 // [First, End), as Leaf's [old, new); First is at least 1
	Step       int64 // the row's step, from the same transaction
	Lifted     int64 // by how much max_id was below Floor: the table went back in time
}

// Next is the segment a row's state gives, and the max_id to store. A max_id
// below 1 counts as 1: no ID is 0 or negative. The error is ErrLimitReached when
// fewer IDs than the segment needs are left below 2^63, and ErrInvalidArgument
// for a row whose step is not in 1…MaxTagStep.
func (r TagRequest) Next(maxID, step int64) (TagSegment, error) {
	if step < 1 || step > MaxTagStep {
		return TagSegment{}, fmt.Errorf("%w: step %d of tag %q is outside 1…%d: correct it in leaf_alloc", ErrInvalidArgument, step, r.Tag, int64(MaxTagStep))
	}
	first := max(maxID, r.Floor, 1)
	length := max(r.Step, step)
	if first > MaxTagID-length {
		return TagSegment{}, fmt.Errorf("%w: tag %q has no segment of %d left below 2^63", ErrLimitReached, r.Tag, length)
	}
	return TagSegment{First: first, End: first + length, Step: step, Lifted: max(r.Floor-max(maxID, 1), 0)}, nil
}

const (
	// MaxTagStep is the largest step, Leaf's own bound of a tuned segment is
	// 1 000 000 (SegmentIDGenImpl.MAX_STEP); a table may ask for more.
	MaxTagStep = 1_000_000_000
	// MaxTagID bounds the IDs of a tag: they are positive 64-bit numbers.
	MaxTagID = 1<<63 - 1
)

// CheckTag refuses a name that cannot be a biz_tag; the error is
// ErrInvalidArgument.
func CheckTag(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the tag is empty", ErrInvalidArgument)
	case len(name) > MaxTagBytes:
		return fmt.Errorf("%w: the tag has %d bytes, at most %d are allowed", ErrInvalidArgument, len(name), MaxTagBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the tag is not valid UTF-8", ErrInvalidArgument)
	}
	return nil
}
