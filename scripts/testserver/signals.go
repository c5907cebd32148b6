//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"syscall"
)

// errRunning keeps stop waiting.
var errRunning = errors.New("still running")

// kill ends the server at once (SIGKILL to its process group) and reaps it;
// nil when it is not running.
func (p *process) kill() error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(-p.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill server: %w", err)
	}
	_, _, err := wait(p.pid, 0)
	return errors.Join(err, p.gone())
}

// stop asks the server to end (SIGTERM) and waits; one that does not end
// within stopLimit is killed, which is an error.
func (p *process) stop() error {
	if !p.alive() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM, syscall.SIGCONT); err != nil {
		return err
	}
	err := waitUntil(stopLimit, func() error {
		if p.alive() {
			return errRunning
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stop server: %w", errors.Join(err, p.kill()))
	}
	return nil
}

// pause returns when every thread of the server stands still: SIGSTOP alone
// would let it answer for a moment longer.
func (p *process) pause() error {
	if p.stopped {
		return nil
	}
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	status, _, err := wait(p.pid, syscall.WUNTRACED)
	if err != nil {
		return fmt.Errorf("pause server: %w", err)
	}
	if !status.Stopped() {
		return errors.Join(fmt.Errorf("pause server: %w", errExited), p.gone())
	}
	p.stopped = true
	return nil
}

func (p *process) resume() error {
	p.stopped = false
	return p.signal(syscall.SIGCONT)
}

func (p *process) signal(signals ...syscall.Signal) error {
	if !p.alive() {
		return fmt.Errorf("signal server: %w", errExited)
	}
	for _, s := range signals {
		if err := syscall.Kill(p.pid, s); err != nil {
			return fmt.Errorf("signal server %v: %w", s, err)
		}
	}
	return nil
}
