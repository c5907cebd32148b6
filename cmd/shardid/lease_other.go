//go:build !linux

package main

import (
	"syscall"
	"time"
)

func isInit() bool { return false }

func endWithParent() *syscall.SysProcAttr { return nil }

var monoBegan = time.Now()

// clocks are the wall clock, since 1970, and the monotonic clock. The difference is not less than
// it is.
func clocks() (wall, mono time.Duration) {
	mono = time.Since(monoBegan)
	return time.Duration(time.Now().UnixNano()), mono
}

// alarm is what the kernel cannot do here: end this process while it stands still.
type alarm struct{}

func (*alarm) set(_, _ time.Duration) error { return nil }
func (*alarm) disarm()                      {}
