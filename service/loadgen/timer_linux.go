package loadgen

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timer wakes one goroutine on time. The runtime's own timers round up to a whole
// millisecond when the process is idle, which would count as latency of the server;
// the kernel's are exact to some ten microseconds.
type timer struct {
	fd   int
	file *os.File // reads on it wait without a thread
}

func newTimer() (*timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &timer{fd: fd, file: os.NewFile(uintptr(fd), "timer")}, nil
}

func (t *timer) close() { _ = t.file.Close() } // nothing was written

// wait returns after ns nanoseconds, which is above 0, or earlier: at the latest
// after longestWait.
func (t *timer) wait(ns int64) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(min(ns, longestWait))}
	err := unix.TimerfdSettime(t.fd, 0, &spec, nil)
	var expirations [8]byte
	if err == nil {
		_, err = t.file.Read(expirations[:])
	}
	if err != nil { // not for such a timer; the caller looks at the clock anyway
		time.Sleep(time.Millisecond)
	}
}
