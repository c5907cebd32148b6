package snowflake

import (
	"fmt"
	"sync/atomic"
	"time"

	"shardid/model"
)

// term is a worker ID between Begin and End.
type term struct {
	worker int64 // shifted into its place
	after  int64 // Unix ms: IDs carry a later time
	// until is the last Unix ms that IDs may carry.
	until atomic.Int64
	// trust is when, by the monotonic clock, the grant ends, in nanoseconds.
	trust atomic.Int64
	// mark is how far the term has come; its type says more.
	mark atomic.Int64
	// ended is why there is no term; the other fields are then of no use.
	ended error
}

// id is the first ID that continues from a mark.
func (t *term) id(m mark) int64 {
	return m.at()<<(workerBits+seqBits) | t.worker | int64(m.used())
}

// allows holds an ID's time, Unix ms, against the bounds of the grant.
func (t *term) allows(ms int64, mono time.Duration) bool {
	return ms <= t.until.Load() && int64(mono) < t.trust.Load()
}

// refusal is why allows did not.
func (t *term) refusal(ms int64) error {
	switch until := t.until.Load(); {
	case until == 0:
		return fmt.Errorf("%w: its time has not been reserved yet", model.ErrNoLease)
	case ms > until:
		return fmt.Errorf("%w: time is reserved up to %s only and the reservation was not renewed", model.ErrNoLease, formatMs(until))
	}
	return fmt.Errorf("%w: its lease was not renewed in time", model.ErrNoLease)
}
