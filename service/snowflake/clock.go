package snowflake

import "time"

// Clock tells the wall clock in nanoseconds since 1970-01-01 UTC, which an
// operator or NTP may set, and a monotonic clock that counts from an arbitrary
// point and cannot be set. Safe for concurrent use.
type Clock func() (wall int64, mono time.Duration)

// SystemClock is the machine's clock.
func SystemClock() Clock {
	start := time.Now()
	return func() (int64, time.Duration) {
		now := time.Now()
		return now.UnixNano(), now.Sub(start)
	}
}
