// Package scripts tests the shell scripts beside it.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulncheck: a check that could not look passes and says so where make test shows it
// last; a finding fails; the next check that could look takes the words away.
func TestVulncheck(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "govulncheck")
	skipped := filepath.Join(filepath.Dir(tool), "vulncheck-skipped")
	for _, c := range []struct {
		says   string
		status string
		fails  bool
		loud   bool
	}{
		{"govulncheck: fetching vulnerabilities: Get https://vuln.go.dev: no such host", "1", false, true},
		{"No vulnerabilities found.", "0", false, false},
		{"govulncheck: fetching vulnerabilities: no such host", "1", false, true},
		{"Vulnerability #1: GO-2026-0001", "3", true, false},
		{"govulncheck: loading packages: a broken file", "1", true, false},
	} {
		if err := os.WriteFile(tool, []byte("#!/bin/sh\necho '"+c.says+"' >&2\nexit "+c.status+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("./vulncheck.sh", tool).CombinedOutput()
		if (err != nil) != c.fails || strings.Contains(string(out), "!!! NOT CHECKED") != c.loud {
			t.Errorf("%s: %v\n%s", c.says, err, out)
		}
		left, _ := os.ReadFile(skipped) // none is as it should be
		if strings.Contains(string(left), "!!! NOT CHECKED") != c.loud {
			t.Errorf("%s: make test ends with %q", c.says, left)
		}
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(makefile), "\ntest: ")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	if lines := strings.Split(recipe, "\n"); !strings.Contains(lines[len(lines)-1], "vulncheck-skipped") {
		t.Errorf("make test ends with %s", lines[len(lines)-1])
	}
}
