//go:build !linux

package loadgen

import "time"

// timer wakes one goroutine on time, as exactly as the runtime does.
type timer struct{}

func newTimer() (*timer, error) { return &timer{}, nil }

func (*timer) close() {}

// wait returns after ns nanoseconds, or earlier: at the latest after longestWait.
func (*timer) wait(ns int64) { time.Sleep(time.Duration(min(ns, longestWait))) }
