//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
)

// What follows is what this system does not do: see the help of lease.

func descriptorLimit() (n uint64, known bool) { return 0, false }

func passedOn() []os.Signal { return nil }

func ownGroup() *syscall.SysProcAttr { return nil }

// signalGroup gives a signal to a command. One that has ended needs none.
func signalGroup(p *os.Process, s os.Signal) error {
	if err := p.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
