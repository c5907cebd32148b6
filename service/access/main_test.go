package access

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is when these tests happen.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sumOf is the SHA-256 of a token as a file has it.
func sumOf(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// one is the entry of a token of the role get.
func one(token, rest string) string {
	return fmt.Sprintf("- name: %s-service\n  sha256: %s\n  role: get\n%s", token, sumOf(token), rest)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fileOf is a new file with a text.
func fileOf(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, file, text)
	return file
}

// guardOf has the tokens of a text, and "root" as that of the configuration.
func guardOf(t testing.TB, text string) *Guard {
	t.Helper()
	g, err := NewGuard(Options{AdminToken: "root", File: fileOf(t, text), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func with(authorization ...string) http.Header { return http.Header{"Authorization": authorization} }
