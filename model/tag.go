package model

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// MaxTagBytes bounds a segment tag: Leaf's biz_tag is a varchar(128).
const MaxTagBytes = 128

// Tag is a row of Leaf's table leaf_alloc.
type Tag struct {
	Name        string
	MaxID       int64 // the first ID that has not been issued
	Step        int64 // smallest segment, in IDs
	Description string
	UpdatedAt   time.Time
	Numbering   // how its IDs are shown; zero as they are
	Region      Region
}

// Numbers is how its IDs are shown; nil for a plain tag. Errors: ErrInvalidArgument.
func (t Tag) Numbers() (*Numbers, error) {
	n, err := t.Numbering.Numbers()
	if n != nil {
		n.Region = t.Region
	}
	return n, err
}

// TagRequest asks for the next segment of a tag.
type TagRequest struct {
	Tag   string
	Step  int64 // wanted length; the row's step when that is more
	Floor int64 // IDs below it have been issued for sure
	// Changed says that the database has changed since the row was stored. Else a row below the
	// witness' mark, which rises before a commit, has not gone back: a commit has failed.
	Changed bool
	Most    int64 // bounds the segment, whatever the row's step; 0 bounds nothing
	Region  Region
	// Numbers is the tag's numbering, as the caller knows it; nil for a plain tag. ShardBits are those of the tag.
	Numbers   *Numbers
	ShardBits uint
}

// TagSegment is a range of IDs that is committed as issued.
type TagSegment struct {
	First, End int64 // [First, End), as Leaf's [old, new); First is at least 1
	Step       int64 // the row's step, from the same transaction
	Lifted     int64 // by how much max_id was below what was issued: the table went back in time
	Jumped     int64 // IDs skipped because it went back by an unknown amount
}

// Next is the segment that a row gives, and its counter to store: the row's max_id is
// one above Last. mark is that of the witness. now is the
// database's clock, local the caller's, which says the period
// of business numbers. The error is ErrInvalidArgument for a row whose step is not in
// 1…MaxTagStep, ErrTimeExhausted for a period that does not exist, or one of Counter.TakeNumbers.
func (r TagRequest) Next(row Counter, step, mark int64, now, local time.Time) (s TagSegment, next Counter, err error) {
	if step < 1 || step > MaxTagStep {
		return s, row, fmt.Errorf("%w: correct step in leaf_alloc: that of tag %q is %d, outside 1…%d",
			ErrInvalidArgument, r.Tag, step, int64(MaxTagStep))
	}
	known := r.Floor - 1
	floor := max(mark, known)
	if r.Changed {
		known = floor
	}
	opened, limit := row, r.Region.MaxNumber(MaxTagNumber(r.ShardBits))
	if r.Numbers != nil {
		if opened, limit, err = r.Numbers.open(row, floor, local); err != nil {
			return s, row, fmt.Errorf("tag %q: %w", r.Tag, err)
		}
	}
	before := opened.Raise(floor).Last
	want := max(r.Step, step)
	if r.Numbers != nil { // a lost segment must not cost much of a period
		want = min(want, max(1, (limit-before)/segmentShare))
	}
	if r.Most > 0 {
		want = min(want, r.Most)
	}
	first, n, next, err := opened.TakeNumbers(floor, want, limit, now)
	if errors.Is(err, ErrLimitReached) && r.Numbers != nil {
		err = fmt.Errorf("%w: no number of the pattern %s is left in this period", ErrLimitReached, r.Numbers.Pattern)
	}
	if err != nil {
		return s, row, fmt.Errorf("tag %q: %w", r.Tag, err)
	}
	return TagSegment{
		First: first, End: first + n, Step: step,
		Lifted: max(0, known-row.Last), Jumped: first - 1 - before,
	}, next, nil
}

const (
	// MaxTagStep is the largest step that fits into the column of Leaf's table.
	MaxTagStep = math.MaxInt32
	// MaxTagID bounds the IDs of a tag: they are positive 64-bit numbers.
	MaxTagID = 1<<63 - 1
)

// CheckTag refuses a name that cannot be a biz_tag; the error is
// ErrInvalidArgument.
func CheckTag(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: give a tag: it is empty", ErrInvalidArgument)
	case len(name) > MaxTagBytes:
		return fmt.Errorf("%w: shorten the tag: it has %d bytes, at most %d are allowed", ErrInvalidArgument, len(name),
			MaxTagBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: encode the tag in UTF-8: it is not valid", ErrInvalidArgument)
	case name == "." || name == "..":
		return fmt.Errorf("%w: choose another tag than %q, which no URL can name", ErrInvalidArgument, name)
	}
	return nil
}

// TagChange is what to change of a tag; nil stays as it is.
type TagChange struct {
	Step        *int64
	Description *string
	MaxID       *int64 // the first ID to hand out; it only rises
}

// Apply gives the tag as it is after the change, which is still to be checked for
// what the table can hold. tag.MaxID must be read under the row's lock. Errors:
// ErrRefused, ErrInvalidArgument.
func (c TagChange) Apply(tag Tag) (Tag, error) {
	if c.MaxID != nil && *c.MaxID < tag.MaxID {
		return Tag{}, fmt.Errorf("%w: %w: max_id of tag %q only rises, as IDs below it may have been issued",
			Do("give `maxId` of %d or more", tag.MaxID), ErrRefused, tag.Name)
	}
	if err := checkText(c.Description); err != nil {
		return Tag{}, err
	}
	set(&tag.Step, c.Step)
	set(&tag.Description, c.Description)
	set(&tag.MaxID, c.MaxID)
	return tag, nil
}
