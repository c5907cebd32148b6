package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inOwnGroup makes a command the first of a process group, and lets the kernel kill it when the
// thread that started it ends.
func inOwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// giveUpPrivileges keeps what this thread starts from gaining any by setuid bits or file
// capabilities: the kernel would not kill it with the thread any more.
func giveUpPrivileges() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// signalGroup gives a signal to a command and to what it started. One that has ended needs none.
func signalGroup(p *os.Process, s os.Signal) error {
	n, _ := s.(syscall.Signal)
	if err := syscall.Kill(-p.Pid, n); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// spared is an error for a command that the kernel does not kill any more when this process
// ends: it has changed its user or group, or its file has capabilities.
func spared(pid int) error {
	const remedy = "would outlive a shardid that is killed"
	users := regexp.MustCompile(`(?m)^[UG]id:.*$`)
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("cannot be looked at, mount /proc: %w", err)
	}
	// A command of another user may be hidden in /proc (hidepid), but then it may not be signalled.
	other := errors.Is(syscall.Kill(pid, 0), syscall.EPERM)
	if its, gone := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); gone == nil {
		other = fmt.Sprintf("%q", users.FindAll(own, -1)) != fmt.Sprintf("%q", users.FindAll(its, -1))
	}
	if other {
		return errors.New("runs under another user than shardid and " + remedy +
			": change the user first, as in `gosu app shardid lease … -- COMMAND`")
	}
	if n, err := unix.Getxattr(fmt.Sprintf("/proc/%d/exe", pid), "security.capability", nil); err == nil && n > 0 {
		return errors.New("has file capabilities and " + remedy +
			": take them off with `setcap -r`, and give ambient ones before, " +
			"as in `setpriv --ambient-caps +net_bind_service --inh-caps +net_bind_service shardid lease … -- COMMAND`")
	}
	return nil
}

// alarm is a timer of the kernel that kills this process, also one that is stopped.
var alarm = sync.OnceValues(func() (timer int32, err error) {
	// The structure is that of timer_create(2).
	event := struct {
		value  uintptr
		signal int32
		notify int32
		_      [64 - 8 - unsafe.Sizeof(uintptr(0))]byte
	}{signal: int32(unix.SIGKILL)}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&timer))) //nolint:gosec // see above
	if errno != 0 {
		return 0, fmt.Errorf("make a timer of the kernel: %w", errno)
	}
	return timer, nil
})

// setAlarm sets the alarm; 0 lets the process live.
func setAlarm(after time.Duration) error {
	timer, err := alarm()
	if err != nil {
		return err
	}
	spec := struct{ interval, value unix.Timespec }{value: unix.NsecToTimespec(int64(after))}
	//nolint:gosec // the structure is that of timer_settime(2)
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("set a timer of the kernel: %w", errno)
	}
	return nil
}
