package main

import "syscall"

// ownGroup makes a command the first of a process group, and lets the kernel kill it when the thread that started it
// ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
