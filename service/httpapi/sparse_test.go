package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A fault that every request meets has some lines, each request its answer, and no
// request is lost from sight.
func TestFaultsAreToldSparsely(t *testing.T) {
	for name, q := range map[string]*fakeQueue{"error": broken(errors.New("disk full")), "panic": panicking("boom")} {
		var log strings.Builder
		api := newAPIWith(q, nil, &log)
		const asked = 20 * faultLines
		for range asked {
			if got := ask(api, http.MethodGet, alice); got.Code != http.StatusInternalServerError {
				t.Fatalf("%s: answered %d", name, got.Code)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n < faultLines || n > asked/2 {
			t.Errorf("%s: %d lines for %d faults", name, n, asked)
		}
		time.Sleep(2 * time.Second / faultLines) // the next has a line for sure
		ask(api, http.MethodGet, alice)
		if !strings.Contains(log.String(), moreLines+"=1") { // and some digits
			t.Errorf("%s: what was left out is not counted", name)
		}
	}
}
