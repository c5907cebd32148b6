package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// isInit says whether this is the first process of its container.
func isInit() bool { return os.Getpid() == 1 }

// endWithParent lets the kernel kill a command when the thread that started it ends.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// clocks are the wall clock, since 1970, and the monotonic clock, which stands while the machine
// sleeps. The difference is not less than it is.
func clocks() (wall, mono time.Duration) {
	for range 10 { // without a pause in between, if it can be had
		mono, wall = clock(unix.CLOCK_MONOTONIC), clock(unix.CLOCK_REALTIME)
		if clock(unix.CLOCK_MONOTONIC)-mono < time.Millisecond {
			break
		}
	}
	return wall, mono
}

func clock(id int32) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(id, &at); err != nil {
		panic(err) // there is no Linux without
	}
	return time.Duration(at.Nano())
}

// alarm is two timers of the kernel, which kill this process, also one that is stopped: when the
// wall clock or the monotonic clock arrives.
type alarm struct {
	made   bool
	timers [2]int32
}

// sigevent is that of timer_create: which signal it sends.
type sigevent struct {
	value  uintptr
	signal int32
	notify int32
	_      [64 - 8 - unsafe.Sizeof(uintptr(0))]byte
}

// set sets the timers to instants of the two clocks, in place of those before.
func (a *alarm) set(wall, mono time.Duration) error {
	if !a.made {
		for i, id := range []uintptr{unix.CLOCK_REALTIME, unix.CLOCK_MONOTONIC} {
			event := sigevent{signal: int32(unix.SIGKILL)}
			//nolint:gosec // the structures are those of timer_create(2)
			_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, id, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.timers[i])))
			if errno != 0 {
				return fmt.Errorf("make a timer of the kernel: %w", errno)
			}
		}
		a.made = true
	}
	for i, at := range []time.Duration{wall, mono} {
		// The value 0 would disarm it.
		if err := a.arm(i, max(at, 1)); err != nil {
			return err
		}
	}
	return nil
}

func (a *alarm) arm(i int, at time.Duration) error {
	const absolute = 1
	spec := struct{ interval, value unix.Timespec }{value: unix.NsecToTimespec(int64(at))}
	//nolint:gosec // the structure is that of timer_settime(2)
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(a.timers[i]), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set a timer of the kernel: %w", errno)
	}
	return nil
}

// disarm lets the process live.
func (a *alarm) disarm() {
	for i := range a.timers {
		if a.made {
			_ = a.arm(i, 0) // it was set before
		}
	}
}
