//go:build unix

package main

import (
	"os"
	"syscall"
)

// descriptorLimit is how many files and connections the process may have open.
func descriptorLimit() (n uint64, known bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil //nolint:unconvert // signed on some systems
}

// forwardedSignals are those that shardid lease gives to its command.
func forwardedSignals() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH}
}
