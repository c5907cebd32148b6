//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// What follows is what this system does not do for a command: see the help of lease.

func inOwnGroup() *syscall.SysProcAttr { return nil }
func giveUpPrivileges() error          { return nil }
func spared(int) error                 { return nil }
func setAlarm(time.Duration) error     { return nil }

// signalGroup gives a signal to a command. One that has ended needs none.
func signalGroup(p *os.Process, s os.Signal) error {
	if err := p.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
