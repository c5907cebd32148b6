//go:build !linux

package main

import "time"

// pause waits as exactly as the runtime does.
func pause(d time.Duration) { time.Sleep(d) }
