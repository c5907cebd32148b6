package httpapi

import (
	"math"
	"strconv"
	"testing"
)

func TestDecimals(t *testing.T) {
	var d decimals
	for _, id := range []int64{1, 9, 10, tail - 1, tail, tail + 1, 2*tail - 1, 2 * tail, 16385, 10 * tail, 1 << 53, math.MaxInt64 - 1, math.MaxInt64, 1} {
		if got, want := string(d.append(nil, id)), strconv.FormatInt(id, 10); got != want {
			t.Errorf("%s for %s", got, want)
		}
	}
}

// All halves of eight digits.
func TestEightDigits(t *testing.T) {
	for n := range int64(10_000) {
		for _, id := range []int64{tail + n, tail + n*10_000, tail + n*10_001} {
			var d decimals
			if got, want := string(d.append(nil, id)), strconv.FormatInt(id, 10); got != want {
				t.Fatalf("%s for %s", got, want)
			}
		}
	}
}

// Two IDs one after the other, as the second reuses what the first left.
func FuzzDecimals(f *testing.F) {
	f.Add(int64(16385), int64(32769))
	f.Add(int64(1169786042799259000), int64(1169786042799259001))
	f.Add(int64(tail-1), int64(tail))
	f.Fuzz(func(t *testing.T, first, second int64) {
		var d decimals
		for _, id := range []int64{first, second, first} {
			if got, want := string(d.append([]byte("x"), id)), "x"+strconv.FormatInt(id, 10); got != want {
				t.Fatalf("%s for %s after %d", got, want, first)
			}
		}
	})
}
