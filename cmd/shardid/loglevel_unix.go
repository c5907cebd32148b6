//go:build unix

package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// toggleOnSignal lets SIGUSR1 toggle the level until the function that it returns is
// called, which waits. From then on the signal is ignored: it would kill.
func toggleOnSignal(level *logLevel) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case s := <-signals:
				level.Toggle(s.String())
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Ignore(syscall.SIGUSR1)
		close(done)
		wg.Wait()
		level.Stop()
	}
}
