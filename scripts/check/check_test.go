package check_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"shardid/scripts/check"
)

// recorder is a test that keeps what it is told.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper()                          {}
func (r *recorder) Errorf(format string, a ...any) { r.said += fmt.Sprintf(format, a...) }
func (r *recorder) Fatal(a ...any)                 { r.said += "fatal " + fmt.Sprint(a...) }

func TestChecks(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", io.EOF)
	two := func(err error) (int, error) { return 1, err }
	for want, do := range map[string]func(t testing.TB){
		"fatal EOF":               func(t testing.TB) { check.Must(t, io.EOF) },
		"reading a: EOF":          func(t testing.TB) { check.OK(t, check.Err(two(io.EOF)), "reading", "a") },
		"got EOF, want b":         func(t testing.TB) { check.Is(t, io.EOF, errors.New("b")) },
		"none: got <nil>, want b": func(t testing.TB) { check.Is(t, nil, errors.New("b"), "none") },
		"row 2: got 1, want 3":    func(t testing.TB) { check.Equal(t, 1, 3, "row", 2) },
		"": func(t testing.TB) {
			check.Must(t, check.Err(two(nil)))
			check.OK(t, nil, "a")
			check.Is(t, wrapped, io.EOF)
			check.Is(t, nil, nil)
			check.Equal(t, "a", "a")
		},
	} {
		r := &recorder{}
		if do(r); r.said != want {
			t.Errorf("said %q, want %q", r.said, want)
		}
	}
}
