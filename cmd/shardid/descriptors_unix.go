//go:build unix

package main

import "syscall"

// descriptorLimit is how many files and connections the process may have open.
func descriptorLimit() (n uint64, known bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil //nolint:unconvert // signed on some systems
}
