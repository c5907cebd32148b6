package config

import (
	"os"
	"strings"
	"testing"
)

// FuzzConfig: no bytes make the loader panic, and an error is one line that
// begins with the file.
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
		l := Defaults()
		err := l.readFile("config.yaml", data)
		if err == nil {
			err = l.check()
		}
		if err == nil {
			return
		}
		if text := err.Error(); !strings.HasPrefix(text, "config.yaml:") || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q: got %q", data, text)
		}
	})
}
