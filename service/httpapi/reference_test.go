package httpapi

import (
	"fmt"
	"testing"

	"shardid/scripts/check"
)

// TestReferences keeps what docs and openapi.yaml have of the source.
func TestReferences(t *testing.T) {
	errors := errorReference(t)
	check.MadePart(t, "../../docs/http.md", "errors", errors)
	check.MadePart(t, "openapi.yaml", "errors", errors)
}

// errorReference is the public error table, each row of which is answered.
func errorReference(t *testing.T) string {
	t.Helper()
	answered := map[errorCode]bool{}
	for _, e := range apiErrors() {
		answered[e.errorCode] = true
	}
	table := "| code | HTTP | means | do |\n|---|---|---|---|\n"
	for _, e := range errorCodes {
		if !answered[e] {
			t.Errorf("nothing is answered with code %d, status %d", e.code, e.status)
		}
		later := ""
		if e.retry {
			later = " + `Retry-After`"
		}
		table += fmt.Sprintf("| %d | %d%s | %s | %s |\n", e.code, e.status, later, e.means, e.do)
	}
	return table
}
