package main

import (
	"errors"
	"os"
	"syscall"
)

// ownGroup makes a command the first of a process group, and lets the kernel kill it when the thread that started it
// ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup gives a signal to a command and to what it started. One that has ended needs none.
func signalGroup(p *os.Process, s os.Signal) error {
	n, _ := s.(syscall.Signal)
	if err := syscall.Kill(-p.Pid, n); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}
