package idtext

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Numbers are themselves and other texts their CRC-32, as zlib.crc32 of Python says them here. What two programs could
// read differently is refused, with the remedy first.
func TestShardKey(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "666": 666, "18446744073709551615": 1<<64 - 1,
		"tenant-7": 0x128cacca, "a": 0xe8b7be43, "用户": 0x1deaa2dd, "6.5": 0x82138d3f,
		"1e3": 0x7db2a841, "٣": 0x5efc9efb,
	} {
		if got, err := ShardKey(text); got != want || err != nil {
			t.Errorf("%q: %#x, %v, want %#x", text, got, err, want)
		}
	}
	for text, remedy := range map[string]string{
		"": "send the number", " 7": "without blanks", "7 ": "without blanks", "a\t": "without blanks",
		"-7": "without a sign", "+7": "without a sign", "007": "without a sign", "00": "without a sign",
		"18446744073709551616": "at most 2^64-1", strings.Repeat("k", MaxShardKeyBytes+1): "shorten",
		"\xff": "percent-encode",
	} {
		_, err := ShardKey(text)
		if !errors.Is(err, ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "invalid argument: ") ||
			!strings.Contains(err.Error(), remedy) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}

// A text that is read is the number that it is or, where it is none, its CRC-32.
func FuzzShardKey(f *testing.F) {
	for _, text := range []string{"666", "0", "tenant", "-1", "+", "007"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, notNumber := strconv.ParseUint(text, 10, 64)
		if notNumber != nil {
			want = uint64(crc32.ChecksumIEEE([]byte(text)))
		}
		if key, err := ShardKey(text); err == nil && key != want {
			t.Errorf("%q: %d, want %d", text, key, want)
		}
	})
}

// Each table gets its share of the keys that people have: numbers as they are, and texts by their CRC-32.
func TestSpread(t *testing.T) {
	const keys = 1 << 16
	rng := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(n int) string{
		"consecutive users": func(n int) string { return strconv.Itoa(100_000 + n) },
		"random 8 digits":   func(int) string { return strconv.Itoa(10_000_000 + rng.IntN(90_000_000)) },
		"phone numbers":     func(int) string { return "138" + strconv.Itoa(10_000_000+rng.IntN(90_000_000)) },
		"tenant-N":          func(n int) string { return "tenant-" + strconv.Itoa(n) },
		"UUIDs":             func(int) string { return fmt.Sprintf("%016x-%016x", rng.Uint64(), rng.Uint64()) },
	} {
		t.Run(name, func(t *testing.T) {
			shares := make([]int, 1024)
			for n := range keys {
				k, err := ShardKey(key(n))
				if err != nil {
					t.Fatal(err)
				}
				shares[k%1024]++
			}
			for tables := 1024; tables >= 16; tables /= 2 {
				shares = shares[:tables]
				fair := float64(keys) / float64(tables)
				// Chance alone is five standard deviations at most.
				least, most := float64(slices.Min(shares))/fair, float64(slices.Max(shares))/fair
				if bound := 1 + 5/math.Sqrt(fair); most > bound || least < 2-bound {
					t.Errorf("%d tables: shares of %.3f to %.3f, want %.3f at most", tables, least, most, bound)
				}
				t.Logf("%4d tables: %.3f to %.3f of a fair share", tables, least, most)
				for i := range tables / 2 {
					shares[i] += shares[i+tables/2]
				}
			}
		})
	}
}
