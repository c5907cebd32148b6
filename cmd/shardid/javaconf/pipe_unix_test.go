//go:build unix

package javaconf

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe is refused: reading it would wait for somebody to write.
func TestPipeIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "leaf.properties")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(pipe, options()); err == nil || !strings.Contains(err.Error(), "it is a named pipe and no regular file") {
		t.Error(err)
	}
}
