package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardid/model"
)

func TestDecodePopped(t *testing.T) {
	good := map[string]model.Popped{
		"abc 0 0 0":               {History: "abc"},
		"abc 7 0 0":               {History: "abc", Purged: 7},
		"abc 0 12 0 1 2 5":        {History: "abc", Len: 12, Indices: []int64{1, 2, 5}},
		"a 0 0 0 562949953421311": {History: "a", Indices: []int64{model.MaxIndex}},
		"abc 0 12 3 7":            {History: "abc", Len: 12, Indices: []int64{7, 8, 9, 10}},
		"a 0 0 1 562949953421310": {History: "a", Indices: []int64{model.MaxIndex - 1, model.MaxIndex}},
	}
	for reply, want := range good {
		got, err := decodePopped(reply)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %+v, %v, want %+v", reply, got, err, want)
		}
	}
	for _, reply := range []string{"", "a", "a 0", "a 0 0", "a  0 0 0", " 0 0 0", "a 0 0 0 ", "a 0 0 0  1", "a 0 0 0 0", "a 0 0 0 -1", "a 0 0 0 1e3",
		"a 0 0 0 1.5", "a 0 0 0 562949953421312", "a 0 0 0 99999999999999999999999", "a x 0 0 1", "a 0 0 0 01", "a 0 0 0 1 2 x", "a 0 0 0 1\n2",
		"a 0 0 1", "a 0 0 1 ", "a 0 0 1 5 6", "a 0 0 1 0", "a 0 0 -1 5", "a 0 0 x 5", "a 0 0 10000 5", "a 0 0 1 562949953421311"} {
		if got, err := decodePopped(reply); err == nil || got.Indices != nil {
			t.Errorf("%q: got %+v, %v, want an error", reply, got, err)
		}
	}
}

func TestDecodeStates(t *testing.T) {
	states := make([]model.ListState, 3)
	if err := decodeStates("abc 1 2 3\n!WRONGTYPE no list\nd 0 0 0", states); err != nil {
		t.Fatal(err)
	}
	if states[0] != (model.ListState{History: "abc", Len: 1, HighWater: 2, Purged: 3}) || states[1].Err == nil ||
		states[2] != (model.ListState{History: "d"}) {
		t.Errorf("%+v", states)
	}
	for _, reply := range []string{"", "a", "a 1 2 3", "a 1 2 3\na 1 2 3\na 1 2", "a 1 2 3\na 1 2 3\na 1 2 3 4", "a 1 2 3\na 1 2 3\na x 2 3", "a 1 2 3\na 1 2 3\n1 2 3"} {
		states := make([]model.ListState, 3)
		if err := decodeStates(reply, states); err == nil && states[2].Err == nil {
			t.Errorf("%q: no error: %+v", reply, states)
		}
	}
	if err := decodeStates("a 0 0 0\na 0 0 0", make([]model.ListState, 1)); err == nil {
		t.Error("more lines than lists")
	}
}

// FuzzDecodePopped compares the parser by hand with a slow one.
func FuzzDecodePopped(f *testing.F) {
	for _, seed := range []string{"abc 0 12 0 1 2 5", "a 0 0 0", "a 0 0 0 ", "", "a 1 2 0 562949953421311", "a 0 0 0 007", "a 0 0 0 1 18446744073709551617",
		"a 0 3 2 7", "a 0 0 10000 1", "a 0 0 1 5 6"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		got, err := decodePopped(reply)
		want, ok := slowly(reply)
		if (err == nil) != ok {
			t.Fatalf("%q: %+v, %v, slowly %v %v", reply, got, err, want, ok)
		}
		if ok && (!slices.Equal(got.Indices, want[3:]) || got.Purged != want[0] || got.Len != want[1]) {
			t.Fatalf("%q: %+v, slowly %v", reply, got, want)
		}
	})
}

func slowly(reply string) (numbers []int64, ok bool) {
	words := strings.Split(reply, " ")
	if len(words) < 4 || words[0] == "" {
		return nil, false
	}
	for i, word := range words[1:] {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 || n > model.MaxIndex || strconv.FormatInt(n, 10) != word || i >= 3 && n == 0 {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	more := numbers[2]
	if more > 0 && (len(words) != 5 || more >= MaxPop || numbers[3]+more > model.MaxIndex) {
		return nil, false
	}
	for i := range more {
		numbers = append(numbers, numbers[3]+i+1)
	}
	return numbers, true
}

func BenchmarkDecodePopped(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var reply strings.Builder
			reply.WriteString("8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb 0 0 0")
			for i := range n {
				fmt.Fprintf(&reply, " %d", 1_000_000_000+i)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodePopped(reply.String()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("a run of 10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decodePopped("8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb 0 0 9999 1000000000"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
