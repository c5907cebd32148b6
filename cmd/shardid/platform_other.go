//go:build !unix

package main

import (
	"os"
	"syscall"
)

// descriptorLimit: there is none to ask for.
func descriptorLimit() (n uint64, known bool) { return 0, false }

// forwardedSignals are those that shardid lease gives to its command.
func forwardedSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
