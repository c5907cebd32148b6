package model_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
)

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
		if h, s := idtext.JavaHash(c.pass), model.ShardOf(c.pass); h != c.hash || s != c.shard {
			t.Errorf("%q: hash %d, shard %d, want %d and %d", c.pass, h, s, c.hash, c.shard)
		}
	}
}

// The hash is the sum over UTF-16 code units, computed here the slow way.
func FuzzJavaHash(f *testing.F) {
	for _, s := range []string{"", "alice", "张三", "a😀b", "\xff\xfe", "+8613800138000", "a@b.example",
		strings.Repeat("x", 1024), strings.Repeat("x", 1025)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want int32
		for _, unit := range utf16.Encode([]rune(s)) {
			want = want*31 + int32(unit)
		}
		if got := idtext.JavaHash(s); got != want {
			t.Fatalf("JavaHash(%q) = %d, want %d", s, got, want)
		}
		if shard := model.ShardOf(s); shard >= model.Shards {
			t.Fatalf("ShardOf(%q) = %d", s, shard)
		}
		shard, err := model.CheckedShardOf(s)
		if shard != model.ShardOf(s) || (err == nil) != (model.CheckGatePass(s) == nil) {
			t.Fatalf("CheckedShardOf(%q) = %d, %v", s, shard, err)
		}
	})
}

func TestCheckGatePass(t *testing.T) {
	for _, pass := range []string{"", strings.Repeat("x", 1025), "\xff", "a\xc3"} {
		check.Is(t, model.CheckGatePass(pass), model.ErrInvalidArgument, "CheckGatePass", pass)
	}
	for _, pass := range []string{"a", "张三", "😀", strings.Repeat("x", 1024), " "} {
		check.OK(t, model.CheckGatePass(pass), "CheckGatePass", pass)
	}
}

// The snowflake decodes as Leaf's own monitor page shows it, the UID is the published example of Baidu's README.
func TestDecode(t *testing.T) {
	d := model.Decoder{
		Snowflake: model.SnowflakeLayout{EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12},
		UID:       model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13, Epoch: time.Date(2016, 5, 19, 16, 0, 0, 0, time.UTC)},
	}
	for _, c := range []struct {
		kind string
		id   int64
		want string
	}{
		{"queue", 16385, "[{index 1} {shardId 0} {appId 1}]"},
		{"snowflake", 1169786042799259000, "[{timestamp 1567733700834} {time 2019-09-06T01:35:00.834Z} {workerId 39} {sequenceId 3448}]"},
		{"uid", 3200169789968523265, "[{timestamp 1556810799} {time 2019-05-02T15:26:39Z} {workerId 21} {sequence 1}]"},
	} {
		parts, err := d.Decode(c.kind, c.id)
		if got := fmt.Sprint(parts); err != nil || got != c.want {
			t.Errorf("Decode(%s, %d) = %s, %v, want %s", c.kind, c.id, got, err, c.want)
		}
	}
}

// The name of a store is not said twice.
func TestConditionString(t *testing.T) {
	for want, c := range map[string]model.Condition{
		"redis: check: refused":       {Name: "redis", Error: "redis: check: refused"},
		"refill: redis: push: closed": {Name: "refill", Error: "redis: push: closed"},
		"queue: starting":             {Name: "queue", Error: "starting"},
	} {
		check.Equal(t, c.String(), want)
	}
}
