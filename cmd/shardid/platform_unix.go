//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// keepOwner gives f the permissions, owner and group of another file. Who may not give
// files away gets an error: the server could not read the result.
func keepOwner(f *os.File, of os.FileInfo) error {
	owner, ok := of.Sys().(*syscall.Stat_t)
	if !ok {
		return f.Chmod(of.Mode().Perm())
	}
	return errors.Join(f.Chown(int(owner.Uid), int(owner.Gid)), f.Chmod(of.Mode().Perm()))
}

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
