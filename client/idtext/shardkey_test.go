package idtext

import (
	"errors"
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

// The low bits of a number's digits are those of the number, whatever the text.
func FuzzShardKey(f *testing.F) {
	for _, text := range []string{"666", "0", "tenant", "-1", "+", "007"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ShardKey(text)
		if again, _ := ShardKey(Dec.Text(int64(key >> 1))); err == nil && again != key>>1 {
			t.Errorf("%q: %d, read as %d", text, key>>1, again)
		}
	})
}
