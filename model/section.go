package model

import (
	"fmt"
	"strings"
	"time"
)

// UnknownLife is that of a section of which it is not known who gave numbers last.
const UnknownLife = "?"

// ServerOf is the life of the server that a life of a section is in.
func ServerOf(life string) string {
	if at := strings.LastIndexByte(life, '-'); at >= 0 {
		return life[:at]
	}
	return life
}

// sectionArrives is how long the numbers that another replica took for a section may be on
// their way to Redis, before a replica takes more.
const sectionArrives = 300 * time.Millisecond

// SectionRow is what the database keeps of a section: a counter, and which life of it in Redis
// gives its numbers, under which term. scripts/prove/sequence.pml has its rules.
type SectionRow struct {
	Counter
	Life string // "" before the first, or UnknownLife
	Term int64
	Open bool // no lease of an earlier term lives
	// Unsure says that the row may be that of a copy: if it lacks numbers, it may lack a later
	// term, too.
	Unsure bool
}

// Next answers a request under the row's lock, and says what to store before that is used. floor is the highest number
// that is known to be taken, limit the highest that may be. fenced says that leases of earlier terms may live. Errors:
// ErrFence, ErrSectionBusy, those of Counter.TakeNumbers.
func (r SectionRow) Next(
	req SectionRequest, floor, step, limit int64, fenced bool, now time.Time,
) (grant SectionGrant, next SectionRow, err error) {
	lacks := r.Unsure && (r.Doubt > 0 || floor > r.Last)
	claim := lacks || r.Life != req.Life
	known := r.Life != "" && r.Life != UnknownLife
	pending := req.Term != r.Term || req.Bound < r.Last
	switch {
	case claim && !lacks && known && ServerOf(r.Life) != ServerOf(req.Life) && !req.Claim:
		return grant, r, fmt.Errorf("%w: section %s", ErrFence, req.Key)
	case !claim && req.Want > 0 && pending && now.Sub(r.At).Abs() < sectionArrives:
		return grant, r, ErrSectionBusy
	}
	next = r
	if !claim && req.Open == r.Term {
		next.Open = true
	}
	if want := max(req.Want, step); claim || req.Want > 0 {
		var first, n int64
		if first, n, next.Counter, err = next.TakeNumbers(floor, want, limit, now); err != nil {
			return grant, r, fmt.Errorf("section %s: %w", req.Key, err)
		}
		grant.Segment = Segment{First: first, Last: first + n - 1}
	}
	if claim {
		next.Life, next.Term = req.Life, grant.Segment.First
		next.Open = !fenced || r.Life == "" && !lacks
	}
	grant.Term, grant.Open = next.Term, next.Open
	return grant, next, nil
}
