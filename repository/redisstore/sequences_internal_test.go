package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// asksOf are asks of a section for each list of counts.
func asksOf(counts ...[]int64) []model.SectionAsk {
	asks := make([]model.SectionAsk, len(counts))
	for i, some := range counts {
		for _, n := range some {
			asks[i].Asks = append(asks[i].Asks, model.KeyAsk{Key: "k", Count: n})
		}
	}
	return asks
}

// Numbers are read as they were given, and those that no section gives are refused.
func TestDecodeNext(t *testing.T) {
	asks := asksOf([]int64{1, 5}, []int64{0}, nil)
	for reply, want := range map[string]string{
		"10 1 6\n10 0\n10":            "[{10 [1 6] false <nil>} {10 [0] false <nil>} {10 [] false <nil>}]",
		"10 10 10\n10 10\n0":          "[{10 [10 10] false <nil>} {10 [10] false <nil>} {0 [] false <nil>}]",
		"-\n-\n-":                     "[{0 [] true <nil>} {0 [] true <nil>} {0 [] true <nil>}]",
		"10 4 -\n10 -\n10":            "[{10 [4 -1] false <nil>} {10 [-1] false <nil>} {10 [] false <nil>}]",
		"10 - -\n-\n9007199254740991": "[{10 [-1 -1] false <nil>} {0 [] true <nil>} {9007199254740991 [] false <nil>}]",
	} {
		answers := make([]model.SectionAnswer, 3)
		check.OK(t, decodeNext(reply, asks, answers), reply)
		check.Equal(t, fmt.Sprint(answers), want, reply)
	}
	for _, reply := range []string{"", "10 1 6\n10 0", "10 1 6\n10 0\n10\n10", "10 1\n10 0\n10", "10 1 6 7\n10 0\n10", "10 11 6\n10 0\n10", "10 1 4\n10 0\n10",
		"10 0 6\n10 0\n10", "10 1 x\n10 0\n10", "10 1 6\n10 0\n9007199254740992", "-1 1 6\n10 0\n10", "10 1  6\n10 0\n10", "10 1 6.0\n10 0\n10", "10 1e0 6\n10 0\n10", "10 1 -6\n10 0\n10"} {
		if err := decodeNext(reply, asks, make([]model.SectionAnswer, 3)); err == nil {
			t.Errorf("%q was read", reply)
		}
	}
}

// States are read as they are told, and those that no script tells are refused.
func TestDecodeSections(t *testing.T) {
	states := make([]model.SectionState, 2)
	check.Must(t, decodeSections("a a-1 0 0\nb b-2 7 9007199254740991", states))
	check.Equal(t, fmt.Sprint(states), "[{a a-1 0 0 <nil>} {b b-2 7 9007199254740991 <nil>}]", "states")
	for _, reply := range []string{"", "a a-1 0 0", "a a-1 0 0\na", "a a-1 0 0\na a-1 0", "a a-1 0 0\na a-1 0 0\n ", "a a-1 0 0\n a-1 0 0",
		"a a-1 0 0\na  0 0", "a a-1 0 0\na a-1 -1 0", "a a-1 0 0\na a-1 0 9007199254740992", "a a-1 0 0\na a-1 1e3 0", "a a-1 0 0\na " + strings.Repeat("x", maxLife+1) + " 0 0"} {
		if err := decodeSections(reply, make([]model.SectionState, 2)); err == nil {
			t.Errorf("%q was read", reply)
		}
	}
}

// FuzzDecodeNext: whatever is read keeps what the service builds on.
func FuzzDecodeNext(f *testing.F) {
	for _, seed := range []string{"", "-", "10 1 6\n10 0", "10 4 -\n-", "10 - -\n10 10", "9007199254740991 1 5\n0 0"} {
		f.Add(seed, int64(1), int64(5))
	}
	f.Fuzz(func(t *testing.T, reply string, one, two int64) {
		asks := asksOf([]int64{max(0, one), max(0, two)}, []int64{0})
		answers := make([]model.SectionAnswer, len(asks))
		if decodeNext(reply, asks, answers) != nil {
			return
		}
		lines := strings.Split(strings.TrimSuffix(reply, "\n"), "\n")
		for i, a := range answers {
			if a.Dry != (lines[i] == "-") || !a.Dry && len(a.Last) != len(asks[i].Asks) {
				t.Fatalf("%q: %+v", reply, a)
			}
			for j, last := range a.Last {
				if last != model.NoNumber && (last < asks[i].Asks[j].Count || last > a.Bound || a.Bound > model.MaxSequence ||
					!strings.Contains(lines[i], strconv.FormatInt(last, 10))) {
					t.Fatalf("%q: %+v", reply, a)
				}
			}
		}
	})
}
