package model_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"shardid/model"
)

func ExampleShardOf() {
	fmt.Println(model.ShardOf("alice"), model.ShardOf("张三"))
	// Output: 0 41
}

// The values are Java's: "…".hashCode() and Math.abs of it mod 64.
func TestJavaHashVectors(t *testing.T) {
	for _, c := range []struct {
		pass  string
		hash  int32
		shard uint8
	}{
		{"a", 97, 33},
		{"hello", 99162322, 18},
		{"张三", 774889, 41},
		{"alice", 92903040, 0},
		{"polygenelubricants", -2147483648, 0},
		{"😀", 1772899, 35},
		{"", 0, 0},
	} {
		if h, s := model.JavaHash(c.pass), model.ShardOf(c.pass); h != c.hash || s != c.shard {
			t.Errorf("%q: hash %d, shard %d, want %d and %d", c.pass, h, s, c.hash, c.shard)
		}
	}
}

// The hash is the sum over UTF-16 code units, computed here the slow way.
func FuzzJavaHash(f *testing.F) {
	for _, s := range []string{"", "alice", "张三", "a😀b", "\xff\xfe", "+8613800138000", "a@b.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want int32
		for _, unit := range utf16.Encode([]rune(s)) {
			want = want*31 + int32(unit)
		}
		if got := model.JavaHash(s); got != want {
			t.Fatalf("JavaHash(%q) = %d, want %d", s, got, want)
		}
		if shard := model.ShardOf(s); shard >= model.Shards {
			t.Fatalf("ShardOf(%q) = %d", s, shard)
		}
	})
}

func TestCheckGatePass(t *testing.T) {
	for _, pass := range []string{"", strings.Repeat("x", 1025), "\xff", "a\xc3"} {
		if err := model.CheckGatePass(pass); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("CheckGatePass(%q) = %v", pass, err)
		}
	}
	for _, pass := range []string{"a", "张三", "😀", strings.Repeat("x", 1024), " "} {
		if err := model.CheckGatePass(pass); err != nil {
			t.Errorf("CheckGatePass(%q) = %v", pass, err)
		}
	}
}

func BenchmarkShardOf(b *testing.B) {
	for b.Loop() {
		model.ShardOf("alice.liddell@wonderland.example")
	}
}
