//go:build unix

package latency

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used of the cores, in user mode.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}
