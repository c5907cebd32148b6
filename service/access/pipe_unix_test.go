//go:build unix

package access

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
)

// A pipe in the place of a file is refused: nobody writes to it, and reading it would wait.
func TestPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "tokens.yaml")
	write(t, file, one("x", ""))
	g, err := NewGuard(Options{File: file})
	if err == nil {
		err = errors.Join(syscall.Mkfifo(pipe, 0o600), os.Remove(file), syscall.Mkfifo(file, 0o600))
	}
	check.Must(t, err)
	for name, read := range map[string]func() error{
		"as the file":        func() error { _, err := NewGuard(Options{File: pipe}); return err },
		"put in its place":   func() error { g.look(); return g.err },
		"as a certificate":   func() error { _, err := NewCertificates(CertificateFiles{Cert: pipe, Key: pipe}, nil); return err },
		"as the authorities": func() error { _, err := ReadPool(pipe); return err },
	} {
		told := make(chan error, 1)
		go func() { told <- read() }()
		select {
		case err := <-told:
			if err == nil || !strings.Contains(err.Error(), "it is a named pipe and no regular file") {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: reading waits", name)
		}
	}
}
