//go:build !unix

package main

// toggleOnSignal: there is no such signal here; PATCH /admin/log does the same.
func toggleOnSignal(level *logLevel) (stop func()) { return level.Stop }
