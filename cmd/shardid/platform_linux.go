package main

import (
	"errors"
	"os"
	"syscall"
)

// descriptorLimit is how many files and connections the process may have open.
func descriptorLimit() (n uint64, known bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err == nil
}

// passedOn are the signals that shardid lease gives to its command beside those that end a program.
func passedOn() []os.Signal {
	return []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH}
}

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
