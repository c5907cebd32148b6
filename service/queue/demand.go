package queue

import "time"

// How often a list is popped decides how far ahead of its callers it is popped:
// below hotInterval between two pops the distance doubles, above coolInterval it
// halves, and above coldInterval there is none, so that a list with a caller a
// second costs one index a call. The distance settles where one pop lasts
// between the first two: so 64 lists at 50 000 requests a second together cost
// less than one pop for 50 IDs, and a crash loses some tenths of a second's IDs.
const (
	hotInterval  = 80 * time.Millisecond
	coolInterval = 320 * time.Millisecond
	coldInterval = 500 * time.Millisecond
)

// demand follows how fast a list is used. Not safe for concurrent use.
type demand struct {
	ahead int // indices to hold beyond what callers wait for
	last  time.Time
}

// observe notes a pop at now; the distance becomes at most limit.
func (d *demand) observe(now time.Time, limit int) {
	interval := now.Sub(d.last)
	d.last = now
	switch {
	case interval > coldInterval:
		d.ahead = 0
	case interval > coolInterval:
		d.ahead /= 2
	case interval < hotInterval:
		d.ahead = min(max(1, 2*d.ahead), limit)
	}
}
