package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause waits as exactly as the kernel does, some 50 µs; the runtime's own timers
// round up to whole milliseconds when nothing else is to be done.
func pause(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
