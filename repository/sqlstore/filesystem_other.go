//go:build !linux

package sqlstore

// fileSystem cannot tell here.
func fileSystem(string) string { return "" }
