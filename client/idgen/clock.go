package idgen

import (
	"sync/atomic"
	"time"
)

// Clock tells the wall clock in nanoseconds since 1970-01-01 UTC, which an operator or NTP may set, and a
// monotonic clock that counts from an arbitrary point and cannot be set. Safe for concurrent use.
type Clock func() (wall int64, mono time.Duration)

// resync is how old the difference between the two clocks may be: a clock that is set shows that late.
const resync = time.Millisecond

// SystemClock is the machine's clock. Reading the monotonic clock alone costs half of reading both, so the
// wall clock is read once a millisecond.
func SystemClock() Clock {
	start := time.Now()
	var offset, read atomic.Int64 // wall minus monotonic, and when that was read
	read.Store(-int64(resync))
	return func() (int64, time.Duration) {
		mono := time.Since(start)
		if int64(mono)-read.Load() < int64(resync) {
			return int64(mono) + offset.Load(), mono
		}
		now := time.Now()
		mono = now.Sub(start)
		offset.Store(now.UnixNano() - int64(mono))
		read.Store(int64(mono))
		return now.UnixNano(), mono
	}
}
