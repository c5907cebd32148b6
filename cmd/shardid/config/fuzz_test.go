package config

import (
	"os"
	"strings"
	"testing"
)

// FuzzConfig: no bytes make the loader panic, and an error is one line that
// begins with the file for each problem.
func FuzzConfig(f *testing.F) {
	for _, file := range []string{configDocs, "testdata/full.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, c := range fileErrors() {
		if len(c.file) < 1<<16 {
			f.Add([]byte(c.file))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := Check("config.yaml", data); err != nil {
			for i, line := range strings.Split(err.Error(), "\n") {
				if i < mostProblems && !strings.HasPrefix(line, "config.yaml:") || strings.Contains(line, "\r") {
					t.Errorf("%q: got %q", data, line)
				}
			}
		}
	})
}
