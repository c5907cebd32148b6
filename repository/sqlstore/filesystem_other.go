//go:build !linux

package sqlstore

// fileSystem cannot tell here.
func fileSystem(string) string { return "" }

// isMountPoint cannot tell here.
func isMountPoint(string) bool { return false }
