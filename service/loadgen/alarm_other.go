//go:build !linux

package load

import "time"

// alarm wakes one goroutine on time, as exactly as the runtime does.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) close() {}

// wait returns after ns nanoseconds, or earlier: at the latest after longestWait.
func (*alarm) wait(ns int64) { time.Sleep(time.Duration(min(ns, longestWait))) }
