package model

import (
	"fmt"
	"time"
)

// UnknownServer is the server of a section that another one may have given numbers of.
const UnknownServer = "?"

// sectionArrives is how long the numbers that another replica took for a section may be on
// their way to Redis, before a replica takes more.
const sectionArrives = 300 * time.Millisecond

// SectionRow is what the database keeps of a section: a counter, and which life of Redis gives
// its numbers, under which term. scripts/prove/sequence.pml has its rules.
type SectionRow struct {
	Counter
	Server string // "" before the first, or UnknownServer
	Term   int64
	Open   bool // no lease of an earlier term lives
	// Unsure says that the row may be that of a copy: if it lacks numbers, it may lack a later
	// term, too.
	Unsure bool
}

// Next answers a request under the row's lock, and says what to store before that is used. floor
// is the highest number that is known to be taken. fenced says that leases of earlier terms may
// live. Errors: ErrFence, ErrSectionBusy, those of Counter.TakeNumbers.
func (r SectionRow) Next(req SectionRequest, floor, step int64, fenced bool, now time.Time) (grant SectionGrant, next SectionRow, err error) {
	lacks := r.Unsure && (r.Doubt > 0 || floor > r.Last)
	claim := lacks || r.Server != req.Server
	pending := req.Term != r.Term || req.Bound < r.Last
	switch {
	case claim && !lacks && r.Server != "" && r.Server != UnknownServer && !req.Claim:
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
		if first, n, next.Counter, err = next.TakeNumbers(floor, want, MaxSequence, now); err != nil {
			return grant, r, fmt.Errorf("section %s: %w", req.Key, err)
		}
		grant.Segment = Segment{First: first, Last: first + n - 1}
	}
	if claim {
		next.Server, next.Term = req.Server, grant.Segment.First
		next.Open = !fenced || r.Server == "" && !lacks
	}
	grant.Term, grant.Open = next.Term, next.Open
	return grant, next, nil
}
