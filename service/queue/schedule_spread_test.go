package queue

import (
	"testing"
	"time"
)

// Sweeps spread over a twentieth of their period, and over five seconds at most.
func TestSpread(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for spec, want := range map[string]time.Duration{
		"0 */2 * * * *": 5 * time.Second, "0 0 * * * *": maxSpread, "* * * * * *": 50 * time.Millisecond, "*/10 * * * * *": 500 * time.Millisecond,
		"@every 1m": 3 * time.Second,
	} {
		when, err := cronParser().Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := spread(when, now); got != want {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}
