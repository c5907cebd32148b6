package model_test

import (
	"math"
	"strconv"
	"testing"

	"shardid/model"
)

func TestDecimals(t *testing.T) {
	const tail = 100_000_000 // what is written at once
	ids := []int64{1, 9, 10, tail - 1, tail, tail + 1, 2*tail - 1, 2 * tail, 16385, 10 * tail, 1 << 53, math.MaxInt64 - 1, math.MaxInt64, 1}
	for n := range int64(10_000) { // all halves of eight digits
		ids = append(ids, tail+n, tail+n*10_000, tail+n*10_001)
	}
	var d model.Decimals
	for _, id := range ids {
		if got, want := string(d.Append(nil, id)), strconv.FormatInt(id, 10); got != want {
			t.Fatalf("%s for %s", got, want)
		}
	}
}

// Two IDs one after the other, as the second reuses what the first left.
func FuzzDecimals(f *testing.F) {
	f.Add(int64(16385), int64(32769))
	f.Add(int64(1169786042799259000), int64(1169786042799259001))
	f.Add(int64(99_999_999), int64(100_000_000))
	f.Fuzz(func(t *testing.T, first, second int64) {
		var d model.Decimals
		for _, id := range []int64{first, second, first} {
			if got, want := string(d.Append([]byte("x"), id)), "x"+strconv.FormatInt(id, 10); got != want {
				t.Fatalf("%s for %s after %d", got, want, first)
			}
		}
	})
}
