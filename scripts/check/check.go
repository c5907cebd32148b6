// Package check holds what the tests of many packages share: checks of one line, the
// reporter of conditions and the log that services are given, certificates, and whether the race
// detector is on.
package check

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// OK reports an error. What says what was done, in the manner of fmt.Sprintln.
func OK(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Errorf("%s%v", label(what), err)
	}
}

// Is reports an error that is not want, as errors.Is has it.
func Is(t testing.TB, err, want error, what ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%sgot %v, want %v", label(what), err, want)
	}
}

// Equal reports a value that is not want.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%sgot %+v, want %+v", label(what), got, want)
	}
}

// Has reports a text that lacks a part, and Lacks one that has it.
func Has(t testing.TB, text, part string, what ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s%q is not in %.2000s", label(what), part, text)
	}
}

// Lacks is the opposite of Has.
func Lacks(t testing.TB, text, part string, what ...any) {
	if strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s%q is in %.2000s", label(what), part, text)
	}
}

// Err is the error of a call that returns more than that: check.Must(t, check.Err(f())).
// It panics if the last result is no error.
func Err(results ...any) error {
	last := results[len(results)-1]
	if last == nil {
		return nil
	}
	return last.(error)
}

// label begins a message with what was done.
func label(what []any) string {
	if len(what) == 0 {
		return ""
	}
	text := fmt.Sprintln(what...)
	return text[:len(text)-1] + ": "
}

// Eventually waits up to twenty seconds until f returns nil; else the test ends.
func Eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := Within(20*time.Second, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Within calls f until it returns nil, for limit at most, and returns its last error. It asks at first
// after a millisecond and, in the end, every twenty.
func Within(limit time.Duration, f func() error) error {
	end := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(pause)
	}
}

// Log keeps what is written to it. Its zero value is ready; it may be used by many
// goroutines.
type Log struct {
	mu  sync.Mutex
	out strings.Builder
}

// Write keeps a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// Count returns how often text was written.
func (l *Log) Count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.out.String(), text)
}

// Reports is a reporter that keeps the last report of each condition. Its zero value
// is ready; it may be used by many goroutines.
type Reports struct {
	mu   sync.Mutex
	last map[string]error
	told map[string]int
}

// Report keeps err as what is wrong with the condition.
func (r *Reports) Report(condition string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last, r.told = map[string]error{}, map[string]int{}
	}
	r.last[condition], r.told[condition] = err, r.told[condition]+1
}

// Of returns the last report of a condition.
func (r *Reports) Of(condition string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[condition]
}

// Told returns how often a condition was reported.
func (r *Reports) Told(condition string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[condition]
}

// Deep skips a test that only `make test-all` runs: one that takes long, needs what few machines have, or
// looks once more, by other means, at what `make test` has decided. DEEP=1 in the environment runs them.
func Deep(t testing.TB) {
	if os.Getenv("DEEP") == "" {
		t.Helper()
		t.Skip("deep: make test-all runs it, or DEEP=1")
	}
}

var update = flag.Bool("update", false, "write what tests make from the source, as make references does")

// Made reports a file that is not want, which was made from the source. With -update it
// writes it.
func Made(t testing.TB, file, want string) {
	t.Helper()
	if *update {
		Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	Must(t, err)
	if string(got) != want {
		t.Errorf("%s is out of date: make references", file)
	}
}

// MadePart is Made for the lines of a file between the comments <!-- NAME: made by make
// references --> and <!-- end of NAME -->, with the indentation of the first.
func MadePart(t testing.TB, file, name, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	Must(t, err)
	around := regexp.MustCompile(`(?s)^(.*\n( *)<!-- ` + name + `: made by make references -->\n).*?` +
		`( *<!-- end of ` + name + ` -->\n.*)$`)
	m := around.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("%s has no comments around its part %s", file, name)
	}
	for line := range strings.Lines(want) {
		m[1] += m[2] + line
	}
	Made(t, file, m[1]+m[3])
}

// Race says whether the race detector is on, which makes everything about ten times slower.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
